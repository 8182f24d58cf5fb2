// layers.dll [SECONDS]: a program that collects and allocates in a library, in its own methods, and in a recursion.
// At the end, the program writes a line per call to the file KLOG, if set: CLOCK_MONOTONIC before and after the call in
// ns, the row that gcwatch must show (the site, or the method of the program and the method of the library), the
// quantity (GC.Collect or bytes), and its amount.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Runtime.CompilerServices;
using System.Threading;
using Microsoft.Acme.Learning;

namespace Shop.Layers
{
    public struct Point
    {
        public long X, Y, Z;
    }

    public static class Program
    {
        static readonly List<string> log = new List<string>();
        static readonly Random random = new Random(7);
        static object kept;

        public static int Main(string[] args)
        {
            int seconds = args.Length > 0 ? int.Parse(args[0]) : 20;
            Console.WriteLine("ready pid " + Process.GetCurrentProcess().Id);
            Stopwatch watch = Stopwatch.StartNew();
            while (watch.Elapsed.TotalSeconds < seconds)
            {
                Collects("Shop.Layers.Program.Learn_->_Microsoft.Acme.Learning.Trainer.Trim", Learn);
                Collects("Shop.Layers.Program.Clean", Clean);
                Allocates("Shop.Layers.Program.Score_->_Microsoft.Acme.Learning.Trainer.Score", Score);
                Allocates("Shop.Layers.Program.Pools_->_Microsoft.Acme.Learning.Pool<Point>.Take", Pools);
                Allocates("Shop.Layers.Program.Points", Points);
                Allocates("Shop.Layers.Doc.Print", Print);
                Thread.Sleep(5);
            }
            string file = Environment.GetEnvironmentVariable("KLOG");
            if (file != null)
            {
                File.WriteAllLines(file, log);
            }
            return 0;
        }

        static void Collects(string row, Action work)
        {
            long began = Stopwatch.GetTimestamp();
            int before = GC.CollectionCount(0);
            work();
            int count = GC.CollectionCount(0) - before;
            log.Add(began + " " + Stopwatch.GetTimestamp() + " " + row + " GC.Collect " + count);
        }

        static void Allocates(string row, Action work)
        {
            long began = Stopwatch.GetTimestamp();
            long before = GC.GetAllocatedBytesForCurrentThread();
            work();
            long bytes = GC.GetAllocatedBytesForCurrentThread() - before;
            log.Add(began + " " + Stopwatch.GetTimestamp() + " " + row + " bytes " + bytes);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Learn()
        {
            kept = Trainer.Fit() > 0 ? log : null;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Clean()
        {
            GC.Collect(0);
            kept = null;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Score()
        {
            for (int i = 0; i < 100; i++)
            {
                kept = Trainer.Score(random.Next(100, 4000)) > 0 ? log : null;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Pools()
        {
            for (int i = 0; i < 100; i++)
            {
                kept = Pool<Point>.Take(random.Next(10, 150)) > 0 ? log : null;
            }
        }

        // List<Point> is code of the framework that the runtime compiles for a value type of the program.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Points()
        {
            for (int i = 0; i < 20; i++)
            {
                List<Point> points = new List<Point>();
                for (int j = 0; j < 300; j++)
                {
                    points.Add(new Point());
                }
                kept = points;
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Print()
        {
            for (int i = 0; i < 40; i++)
            {
                kept = Doc.Print(random.Next(1, 40)) + Doc.Print(random.Next(1, 40)) > 0 ? log : null;
            }
        }
    }

    // Print calls itself through Group.
    static class Doc
    {
        static string text;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Print(int depth)
        {
            text = new string('x', 100);
            return depth == 0 ? 1 : Group(depth) + 1;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Group(int depth)
        {
            return Print(depth - 1) + 1;
        }
    }
}
