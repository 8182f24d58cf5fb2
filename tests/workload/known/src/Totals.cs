// totals.dll SECONDS KINDS THREADS: allocates small, large and pinned objects, keeps some of the objects, and writes
// GC.GetTotalAllocatedBytes to the file KLOG ten times per second. A line is `TICKS TOTAL`, with TICKS on the clock of
// the streams. KINDS is a sum: 1 for small objects, 2 for large objects, 4 for pinned objects. The program is C# 7,
// compiled with the assemblies of .NET Core 3.1.
using System;
using System.Diagnostics;
using System.IO;
using System.Reflection;
using System.Threading;

static class Totals
{
    static readonly object[] Small = new object[3000], Large = new object[60], Pinned = new object[60];
    static readonly MethodInfo Total = typeof(GC).GetMethod("GetTotalAllocatedBytes");
    static MethodInfo pinnedArray;

    static void Main(string[] arguments)
    {
        int seconds = int.Parse(arguments[0]), kinds = int.Parse(arguments[1]), threads = int.Parse(arguments[2]);
        foreach (var method in typeof(GC).GetMethods())
            if (method.Name == "AllocateUninitializedArray") pinnedArray = method.MakeGenericMethod(typeof(byte));
        Console.WriteLine("ready ");
        Thread.Sleep(1500);
        var done = false;
        var log = new Thread(() =>
        {
            using (var writer = new StreamWriter(Environment.GetEnvironmentVariable("KLOG")))
                while (!Volatile.Read(ref done))
                {
                    writer.WriteLine(Stopwatch.GetTimestamp() + " " + Total.Invoke(null, new object[] { true }));
                    Thread.Sleep(100);
                }
        });
        log.Start();
        var began = Environment.TickCount;
        var all = new Thread[threads];
        for (var thread = 0; thread < threads; thread++)
        {
            var seed = thread;
            all[thread] = new Thread(() =>
            {
                var random = new Random(seed);
                for (var round = 1; Environment.TickCount - began < seconds * 1000; round++)
                {
                    if ((kinds & 1) != 0)
                        for (var i = 0; i < 200; i++) Small[random.Next(Small.Length)] = new byte[random.Next(20, 2000)];
                    if ((kinds & 2) != 0) Large[random.Next(Large.Length)] = new byte[random.Next(100000, 500000)];
                    if ((kinds & 4) != 0)
                        Pinned[random.Next(Pinned.Length)] = pinnedArray.Invoke(null, new object[] { random.Next(1000, 100000), true });
                    if (round % 4 == 0) Thread.Sleep(1);
                }
            });
            all[thread].Start();
        }
        foreach (var thread in all) thread.Join();
        done = true;
        log.Join();
        Thread.Sleep(1000);
    }
}
