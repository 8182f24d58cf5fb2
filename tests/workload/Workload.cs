// The workload of the live tests: a small program whose mode selects the behaviour of the collector.
//
//   WMODE   mode (see Find, and Cases.cs for the anomalies), default steady; the first argument overrides WMODE
//   WSECS   seconds until the program exits by itself, default 30; the second argument overrides WSECS
//   WROUNDS number of rounds of 2 MB that the mode `fixed` allocates, default 1000
//   WWAIT   any value: the work starts with the line `go`, so that a session can be open before the work starts
//
// The program prints `ready PID` before the work starts, and then four times per second
// `tick TIMESTAMP gen0 gen1 gen2 total_pause_us`. The three counts are GC.CollectionCount(n), which counts a full
// collection in all three generations. The pause is GC.GetTotalPauseDuration, or -1 if the runtime does not have this
// method. TIMESTAMP is from the clock of the events in the stream. The program prints a last tick when the work has
// ended.
//
// Lines on standard input control the program. It answers every line except `stop` with `did ...` and the numbers of a
// tick:
//
//   stop        exit cleanly
//   collect N   call GC.Collect(N) before the answer
//   count       only answer
//   go          start the work (WWAIT), or the rounds of the mode `fixed`, which prints `done` after its rounds and then
//               waits for `stop`; the modes lohoos and sohoos start without their delay
//
// The program exits when its standard input closes, so that it does not outlive the test that started it, and at most
// 5 s after WSECS in any case. The modes leak, lohoos, sohoos and slowleak keep at most KeptBytes.
//
// The program is C# 7, compiled with the assemblies of .NET Core 3.1, and runs on every later runtime. It finds the
// methods that .NET Core 3.1 does not have by reflection. StartupHook runs the workload in the process of another
// program, in place of the Main method of that program (DOTNET_STARTUP_HOOKS).

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Reflection;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

public static class StartupHook
{
    public static void Initialize()
    {
        Environment.Exit(Workload.Main(new string[0]));
    }
}

public static partial class Workload
{
    // The value is above every hard limit that the tests set for the modes lohoos and sohoos, and low enough for a
    // small machine.
    const long KeptBytes = 256000000;

    static volatile bool stop;
    static volatile bool go;
    static readonly Random random = new Random(42);
    static readonly MethodInfo totalPause = typeof(GC).GetMethod("GetTotalPauseDuration");
    static readonly object output = new object();
    static object sink;

    public static int Main(string[] args)
    {
        string mode = args.Length > 0 ? args[0] : Environment.GetEnvironmentVariable("WMODE") ?? "steady";
        string text = args.Length > 1 ? args[1] : Environment.GetEnvironmentVariable("WSECS") ?? "30";
        double seconds;
        if (!double.TryParse(text, NumberStyles.Float, CultureInfo.InvariantCulture, out seconds) || seconds <= 0)
        {
            Console.Error.WriteLine("workload: WSECS is no number of seconds: " + text);
            return 2;
        }
        Action work = Find(mode);
        if (work == null)
        {
            Console.Error.WriteLine("workload: unknown mode " + mode);
            return 2;
        }

        Start(delegate
        {
            Thread.Sleep(TimeSpan.FromSeconds(seconds));
            stop = true;
            // A mode that does not return within 5 s after `stop` is set must not keep the process alive.
            Thread.Sleep(5000);
            Environment.Exit(3);
        });
        Start(Listen);
        Print("ready " + Process.GetCurrentProcess().Id);
        Report("tick");
        Thread ticker = Start(delegate { while (!stop) { Thread.Sleep(250); if (!stop) Report("tick"); } });
        if (Environment.GetEnvironmentVariable("WWAIT") != null) while (!go && !stop) Thread.Sleep(10);
        work();
        stop = true;
        ticker.Join();
        Report("tick");
        return 0;
    }

    static void Listen()
    {
        StreamReader input = new StreamReader(Console.OpenStandardInput());
        while (!stop)
        {
            try
            {
                string line = input.ReadLine();
                if (line == null || line == "stop") break;
                if (line == "go") go = true;
                if (line.StartsWith("collect ", StringComparison.Ordinal)) GC.Collect(int.Parse(line.Substring(8), CultureInfo.InvariantCulture));
                Report("did");
            }
            catch (OutOfMemoryException) { }
        }
        stop = true;
    }

    static void Print(string line)
    {
        lock (output)
        {
            Console.Out.WriteLine(line);
            Console.Out.Flush();
        }
    }

    // The mode can have filled the heap, so a report can fail. The tests tolerate a missing line.
    static void Report(string word)
    {
        try
        {
            long us = totalPause == null ? -1 : ((TimeSpan)totalPause.Invoke(null, null)).Ticks / 10;
            Print(word + " " + Stopwatch.GetTimestamp() + " " + GC.CollectionCount(0) + " " + GC.CollectionCount(1) + " " + GC.CollectionCount(2) + " " + us);
        }
        catch (OutOfMemoryException) { }
        catch (TargetInvocationException) { }
    }

    static Thread Start(ThreadStart body)
    {
        Thread thread = new Thread(body);
        thread.IsBackground = true;
        thread.Start();
        return thread;
    }

    static Action Find(string mode)
    {
        switch (mode)
        {
            case "steady": return Steady;
            case "small": return Small;
            case "fixed": return Fixed;
            case "idle": return delegate { while (!stop) Thread.Sleep(20); };
            case "loh": return Loh;
            case "lohoos": return delegate { UntilFull(200000, 25); };
            case "sohoos": return delegate { UntilFull(4000, 2000); };
            case "induced": return Induced;
            case "lohcompact": return LohCompact;
            case "pin": return Pin;
            case "fin": return Finalizers;
            case "leak": return Leak;
            case "handles": return Handles;
            case "pressure": return Pressure;
            case "cond": return Conditional;
            case "weak": return Weak;
            case "threads": return Threads;
            case "nogc": return NoGc;
            case "refresh": return Refresh;
            case "bgc": return Background;
            case "lowlatency": return LowLatency;
            case "bursts": return Bursts;
            default: return FindCase(mode);
        }
    }

    // Allocates small arrays and keeps a few of them for a while, like most services.
    static void Steady()
    {
        byte[][] kept = new byte[2000][];
        while (!stop)
        {
            for (int i = 0; i < 4000; i++)
            {
                byte[] piece = new byte[500];
                if (i % 20 == 0) kept[random.Next(kept.Length)] = piece;
            }
            Thread.Sleep(5);
        }
        sink = kept;
    }

    // Allocates like `steady`, but as fast as one thread can and for a fixed number of rounds, so that the CPU times of
    // two runs can be compared.
    static void Fixed()
    {
        int rounds = int.Parse(Environment.GetEnvironmentVariable("WROUNDS") ?? "1000", CultureInfo.InvariantCulture);
        byte[][] kept = new byte[2000][];
        while (!go && !stop) Thread.Sleep(10);
        for (int round = 0; round < rounds && !stop; round++)
        {
            for (int i = 0; i < 4000; i++)
            {
                byte[] piece = new byte[500];
                if (i % 20 == 0) kept[random.Next(kept.Length)] = piece;
            }
        }
        sink = kept;
        Report("done");
        while (!stop) Thread.Sleep(10);
    }

    // Allocates tiny objects that all die young, with a sleep of 1 ms after every 100,000 objects. The runtime does
    // many generation 0 collections.
    static void Small()
    {
        while (!stop)
        {
            for (int i = 0; i < 100000; i++) sink = new byte[40];
            Thread.Sleep(1);
        }
    }

    static void Loh()
    {
        byte[][] kept = new byte[20][];
        while (!stop)
        {
            kept[random.Next(kept.Length)] = new byte[100000 + random.Next(400000)];
            Thread.Sleep(1);
        }
        sink = kept;
    }

    // Keeps arrays until an allocation fails, drops some of the arrays, and continues. The mode needs a hard limit
    // below KeptBytes.
    static void UntilFull(int size, int dropped)
    {
        // A runtime that is out of memory can crash when a tool opens the first session (seen on 10.0.0). The delay of
        // 2 s lets the test open a session before the heap is full.
        for (int i = 0; i < 100 && !stop && !go; i++) Thread.Sleep(20);
        List<object> kept = new List<object>();
        while (!stop)
        {
            try
            {
                for (int i = 0; i < 50 && !stop; i++) kept.Add(new byte[size]);
                if ((long)kept.Count * size > KeptBytes) kept.RemoveRange(0, dropped);
                Thread.Sleep(1);
            }
            catch (OutOfMemoryException)
            {
                kept.RemoveRange(0, Math.Min(kept.Count, dropped));
                Thread.Sleep(20);
            }
        }
        kept.Clear();
    }

    static void Induced()
    {
        object aggressive = Enum.IsDefined(typeof(GCCollectionMode), "Aggressive") ? Enum.Parse(typeof(GCCollectionMode), "Aggressive") : null;
        for (int i = 0; !stop; i++)
        {
            for (int j = 0; j < 500; j++) sink = new byte[1000];
            switch (i % 6)
            {
                case 0: GC.Collect(); break;
                case 1: GC.Collect(0); break;
                case 2: GC.Collect(1, GCCollectionMode.Forced); break;
                case 3: GC.Collect(2, GCCollectionMode.Optimized, false); break;
                case 4: GC.Collect(2, GCCollectionMode.Forced, true, true); break;
                case 5: if (aggressive != null) GC.Collect(2, (GCCollectionMode)aggressive, true, true); break;
            }
            Thread.Sleep(20);
        }
    }

    static void LohCompact()
    {
        byte[][] kept = new byte[40][];
        for (int i = 0; !stop; i++)
        {
            kept[i % kept.Length] = new byte[100000 + random.Next(200000)];
            if (i % 20 == 19)
            {
                GCSettings.LargeObjectHeapCompactionMode = GCLargeObjectHeapCompactionMode.CompactOnce;
                GC.Collect();
            }
            Thread.Sleep(2);
        }
        sink = kept;
    }

    // Creates islands of pinned objects between dropped objects.
    static void Pin()
    {
        Queue<GCHandle> pinned = new Queue<GCHandle>();
        while (!stop)
        {
            for (int i = 0; i < 2000; i++)
            {
                byte[] piece = new byte[1000];
                if (i % 100 == 0) pinned.Enqueue(GCHandle.Alloc(piece, GCHandleType.Pinned));
            }
            while (pinned.Count > 500) pinned.Dequeue().Free();
            Thread.Sleep(5);
        }
        while (pinned.Count > 0) pinned.Dequeue().Free();
    }

    sealed class Slow
    {
        readonly byte[] bytes = new byte[2000];
        static int count;
        ~Slow() { if (bytes.Length > 0 && Interlocked.Increment(ref count) % 500 == 0) Thread.Sleep(1); }
    }

    static void Finalizers()
    {
        while (!stop)
        {
            for (int i = 0; i < 1000; i++) sink = new Slow();
            Thread.Sleep(5);
        }
    }

    // Keeps about 20 MB more per second, up to KeptBytes, and never drops an object.
    static void Leak()
    {
        List<byte[]> kept = new List<byte[]>();
        while (!stop)
        {
            try
            {
                for (int i = 0; i < 100; i++)
                {
                    if (kept.Count < KeptBytes / 1000) kept.Add(new byte[1000]);
                    for (int j = 0; j < 5; j++) sink = new byte[3000];
                }
            }
            catch (OutOfMemoryException) { }
            Thread.Sleep(5);
        }
        kept.Clear();
    }

    static void Handles()
    {
        Queue<GCHandle> handles = new Queue<GCHandle>();
        GCHandleType[] types = { GCHandleType.Normal, GCHandleType.Weak, GCHandleType.WeakTrackResurrection, GCHandleType.Pinned };
        for (int i = 0; !stop; i++)
        {
            for (int j = 0; j < 40; j++) handles.Enqueue(GCHandle.Alloc(new byte[200], types[j % types.Length]));
            for (int j = 0; j < 2000; j++) sink = new byte[500];
            while (handles.Count > 400) handles.Dequeue().Free();
            Thread.Sleep(5);
        }
        while (handles.Count > 0) handles.Dequeue().Free();
    }

    static void Pressure()
    {
        while (!stop)
        {
            GC.AddMemoryPressure(10000000);
            for (int i = 0; i < 200; i++) sink = new byte[1000];
            Thread.Sleep(5);
            GC.RemoveMemoryPressure(10000000);
        }
    }

    // Creates short and long weak references (a long weak reference tracks resurrection), and drops most of their
    // targets.
    static void Weak()
    {
        WeakReference[] references = new WeakReference[5000];
        object[] kept = new object[500];
        while (!stop)
        {
            for (int i = 0; i < 2000; i++)
            {
                byte[] target = new byte[500];
                references[random.Next(references.Length)] = new WeakReference(target, i % 2 == 0);
                if (i % 10 == 0) kept[random.Next(kept.Length)] = target;
            }
            Thread.Sleep(5);
        }
        GC.KeepAlive(references);
        GC.KeepAlive(kept);
    }

    // Creates dependent handles: each entry of a ConditionalWeakTable has one.
    static void Conditional()
    {
        ConditionalWeakTable<object, byte[]> table = new ConditionalWeakTable<object, byte[]>();
        object[] keys = new object[500];
        while (!stop)
        {
            for (int i = 0; i < 500; i++)
            {
                object key = new object();
                table.Add(key, new byte[2000]);
                keys[random.Next(keys.Length)] = key;
            }
            Thread.Sleep(3);
        }
        sink = keys;
    }

    static void Threads()
    {
        Thread[] threads = new Thread[8];
        for (int t = 0; t < threads.Length; t++)
        {
            int seed = t;
            threads[t] = Start(delegate
            {
                Random own = new Random(seed);
                byte[][] kept = new byte[3000][];
                while (!stop)
                {
                    for (int i = 0; i < 2000; i++)
                    {
                        byte[] piece = new byte[600];
                        if (i % 10 == 0) kept[own.Next(kept.Length)] = piece;
                    }
                    Thread.Sleep(2);
                }
                GC.KeepAlive(kept);
            });
        }
        foreach (Thread thread in threads) thread.Join();
    }

    // A collection inside a no-GC region (a `collect` line, which another thread executes) ends the region.
    // EndNoGCRegion then throws InvalidOperationException.
    static void NoGc()
    {
        while (!stop)
        {
            try
            {
                if (GC.TryStartNoGCRegion(1000000))
                {
                    sink = new byte[1000];
                    GC.EndNoGCRegion();
                }
            }
            catch (InvalidOperationException) { }
            Thread.Sleep(10);
        }
    }

    static void Refresh()
    {
        MethodInfo refresh = typeof(GC).GetMethod("RefreshMemoryLimit");
        while (!stop)
        {
            if (refresh != null) refresh.Invoke(null, null);
            for (int i = 0; i < 2000; i++) sink = new byte[500];
            Thread.Sleep(10);
        }
    }

    sealed class Node { public Node Left, Right; public byte[] Bytes = new byte[40]; }

    static Node Tree(int depth)
    {
        if (depth == 0) return new Node();
        return new Node { Left = Tree(depth - 1), Right = Tree(depth - 1) };
    }

    // Keeps a live heap that takes a while to mark, and requests background collections one after the other, with
    // ephemeral collections during each of them.
    static void Background()
    {
        Node tree = Tree(17);
        // The tree must be old before the first background collection. Otherwise, in many runs, .NET Core 3.1 turns all
        // background collections into blocking collections.
        GC.Collect();
        GC.Collect();
        Start(delegate { while (!stop) { GC.Collect(2, GCCollectionMode.Forced, false); Thread.Sleep(20); } });
        while (!stop)
        {
            for (int i = 0; i < 5000; i++) sink = new byte[700];
            Thread.Sleep(1);
        }
        GC.KeepAlive(tree);
    }

    // Sets each latency mode except NoGCRegion in turn. Each latency mode is a pause mode in GlobalHeapHistory. Server
    // GC ignores LowLatency, and the runtime ignores SustainedLowLatency if background collections are off
    // (gcConcurrent=0).
    static void LowLatency()
    {
        GCLatencyMode[] modes = { GCLatencyMode.Batch, GCLatencyMode.Interactive, GCLatencyMode.LowLatency, GCLatencyMode.SustainedLowLatency };
        for (int i = 0; !stop; i++)
        {
            if (i % 20 == 0)
            {
                try { GCSettings.LatencyMode = modes[i / 20 % modes.Length]; }
                catch (InvalidOperationException) { }
            }
            for (int j = 0; j < 3000; j++) sink = new byte[500];
            Thread.Sleep(5);
        }
        GCSettings.LatencyMode = GCLatencyMode.Interactive;
    }

    static void Bursts()
    {
        while (!stop)
        {
            for (int i = 0; i < 60000 && !stop; i++) sink = new byte[800];
            Thread.Sleep(300);
        }
    }
}
