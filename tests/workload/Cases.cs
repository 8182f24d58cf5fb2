// Modes that each provoke one anomaly, and healthy modes that resemble an anomaly. tests/recordings/rules has
// recordings of these modes.
//
// Most modes need a few seconds.
//
//   WKEEP   MB that nearlimit, pinlimit, burst, pinholes and afterpeak create; maximum MB that fastleak, plateau and
//           nativeleak keep
//   WRATE   MB per second by which fastleak, plateau and nativeleak grow
//   WPACE   factor by which every mode that calls Every sleeps longer between two steps, because a trend needs many
//           minutes

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace System.Runtime.InteropServices
{
    // The runtime finds the attribute by its name. .NET Core 3.1 does not know the attribute and ignores it.
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class SuppressGCTransitionAttribute : Attribute { }
}

public static partial class Workload
{
    static Action FindCase(string mode)
    {
        switch (mode)
        {
            case "collect": return Collect;
            case "aggressive": return Aggressive;
            case "lowmemory": return LowMemory;
            case "nearlimit": return NearLimit;
            case "pinlimit": return PinnedNearLimit;
            case "longpause": return LongPause;
            case "sort": return Sort;
            case "native": return delegate { NativeCalls(150); };
            case "wedged": return delegate { NativeCalls(12000); };
            case "frozen": return Frozen;
            case "storm": return Storm;
            case "lohtemp": return TemporaryLarge;
            case "spike": return Spike;
            case "midlife": return MidLife;
            case "weakmany": return ManyWeak;
            case "bgcstorm": return ManyInBackground;
            case "slowleak": return SlowLeak;
            case "quiet": return delegate { Every(5, delegate { }); };
            case "handleleak": return HandleLeak;
            case "syncblocks": return SyncBlocks;
            case "finslow": return SlowFinalizer;
            case "finstuck": return StuckFinalizer;
            case "pinned": return Pinned;
            case "lohholes": return LargeHoles;
            case "gen2holes": return OldHoles;
            case "oscillate": return Oscillate;
            case "nogcover": return PastNoGc;
            case "startup": return StartUp;
            case "batch": return Batch;
            case "fastleak": return FastLeak;
            case "plateau": return Plateau;
            case "nativeleak": return NativeLeak;
            case "finone": return OneStuckFinalizer;
            case "burst": return Burst;
            case "stacks": return DeepStacks;
            case "quietbgc": return QuietBackground;
            case "pinholes": return PinnedHoles;
            case "afterpeak": return AfterPeak;
            default: return null;
        }
    }

    // Allocates garbage like the mode `steady`, in addition to the objects of the current mode.
    static void Serve(int pieces)
    {
        for (int i = 0; i < pieces; i++) sink = new byte[500];
    }

    static void Every(int ms, Action act)
    {
        int pace = int.Parse(Environment.GetEnvironmentVariable("WPACE") ?? "1", CultureInfo.InvariantCulture);
        while (!stop)
        {
            Serve(1000);
            act();
            Thread.Sleep(ms * pace);
        }
    }

    static long KeptOf(long unless)
    {
        string text = Environment.GetEnvironmentVariable("WKEEP");
        return text == null ? unless : long.Parse(text, CultureInfo.InvariantCulture) * 1000000;
    }

    // Calls GC.Collect() twice per second, like a library that "frees memory".
    static void Collect()
    {
        Node tree = Tree(16);
        Every(500, delegate { GC.Collect(); });
        GC.KeepAlive(tree);
    }

    static void Aggressive()
    {
        object mode = Enum.IsDefined(typeof(GCCollectionMode), "Aggressive") ? Enum.Parse(typeof(GCCollectionMode), "Aggressive") : GCCollectionMode.Forced;
        Every(1000, delegate { GC.Collect(2, (GCCollectionMode)mode, true, true); });
    }

    // Collects like a host that receives a low memory signal from the system. .NET 10 has this internal overload of
    // GC.Collect. Linux sends no such signal.
    static void LowMemory()
    {
        Type[] types = { typeof(int), typeof(GCCollectionMode), typeof(bool), typeof(bool), typeof(bool) };
        MethodInfo collect = typeof(GC).GetMethod("Collect", BindingFlags.Static | BindingFlags.NonPublic | BindingFlags.Public, null, types, null);
        int i = 0;
        Every(700, delegate
        {
            if (collect != null) collect.Invoke(null, new object[] { 2, GCCollectionMode.Forced, i % 2 == 0, false, true });
            i++;
        });
    }

    // Fills the heap up to WKEEP MB (default 70), and then allocates only garbage. The mode needs a hard limit slightly
    // above WKEEP.
    static void NearLimit()
    {
        List<byte[]> kept = new List<byte[]>();
        long size = 0, goal = KeptOf(70000000);
        while (!stop)
        {
            try
            {
                for (int i = 0; i < 200 && size < goal; i++, size += 4000) kept.Add(new byte[4000]);
                Serve(300);
            }
            catch (OutOfMemoryException) { kept.RemoveRange(0, kept.Count / 10); size -= size / 10; }
            Thread.Sleep(2);
        }
        GC.KeepAlive(kept);
    }

    // Fills the heap up to WKEEP MB (default 60) with islands of pinned arrays between dropped arrays, so that the
    // runtime cannot use the free memory.
    static void PinnedNearLimit()
    {
        List<byte[]> kept = new List<byte[]>();
        Queue<GCHandle> pinned = new Queue<GCHandle>();
        long goal = KeptOf(60000000);
        while (!stop)
        {
            try
            {
                for (int i = 0; i < 500; i++)
                {
                    byte[] piece = new byte[1000];
                    if (i % 10 == 0) pinned.Enqueue(GCHandle.Alloc(piece, GCHandleType.Pinned));
                    kept.Add(piece);
                }
                if (kept.Count * 1000L > goal) kept.RemoveRange(0, kept.Count / 2);
            }
            catch (OutOfMemoryException) { kept.RemoveRange(0, kept.Count / 2); }
            while (pinned.Count > 5000) pinned.Dequeue().Free();
            Thread.Sleep(1);
        }
        while (pinned.Count > 0) pinned.Dequeue().Free();
    }

    // Keeps a large live graph of small linked objects: each round builds a new tree, which lives for three rounds.
    static void LongPause()
    {
        Node[] trees = new Node[3];
        for (int i = 0; !stop; i++)
        {
            trees[i % trees.Length] = Tree(18);
            Thread.Sleep(1);
        }
        GC.KeepAlive(trees);
    }

    // .NET Core 3.1 sorts integers in native code, which the runtime cannot suspend. Later versions sort integers in
    // managed code, which the runtime can suspend.
    static void Sort()
    {
        Start(delegate
        {
            int[] numbers = new int[6000000];
            while (!stop)
            {
                for (int i = 0; i < numbers.Length; i++) numbers[i] = i * 1566083941;
                Array.Sort(numbers);
            }
        });
        while (!stop)
        {
            Serve(4000);
            Thread.Sleep(2);
        }
    }

    // The call returns at `until`. The signals with which the runtime interrupts threads do not end the call. Zeroed
    // memory is a valid condition and a valid mutex.
    [DllImport("libc", EntryPoint = "pthread_cond_timedwait")]
    [SuppressGCTransition]
    static extern int WaitInPlace(IntPtr condition, IntPtr mutex, long[] until);

    [DllImport("libc", EntryPoint = "pthread_mutex_lock")]
    static extern int Lock(IntPtr mutex);

    // Calls a native function without a GC transition, although the call is long, so that every collection waits for
    // the end of the call. .NET Core 3.1 ignores the attribute, so its collections do not wait.
    static void NativeCalls(long ms)
    {
        IntPtr zeros = Marshal.AllocHGlobal(256);
        for (int i = 0; i < 256; i++) Marshal.WriteByte(zeros, i, 0);
        Lock(zeros + 128);
        Start(delegate
        {
            while (!stop)
            {
                Thread.Sleep(100);
                long until = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + ms;
                WaitInPlace(zeros, zeros + 128, new long[] { until / 1000, until % 1000 * 1000000 });
            }
        });
        while (!stop)
        {
            Serve(4000);
            Thread.Sleep(2);
        }
    }

    // Stops the whole process for 200 ms, repeatedly, as in a throttled container. A child process sends the signals,
    // because a stopped process cannot continue itself.
    static void Frozen()
    {
        string pid = Process.GetCurrentProcess().Id.ToString(CultureInfo.InvariantCulture);
        string loop = "exec >/dev/null 2>&1 </dev/null; while kill -STOP " + pid + "; do sleep 0.2; kill -CONT " + pid + "; sleep 0.3; done";
        ProcessStartInfo start = new ProcessStartInfo("/bin/sh", "-c \"" + loop + "\"");
        start.UseShellExecute = false;
        Process child = Process.Start(start);
        Storm();
        child.Kill();
    }

    // Replaces small arrays at random slots without a pause. If the budget of generation 0 is small, the collections
    // follow each other back to back.
    static void Storm()
    {
        object[] slots = new object[20000];
        while (!stop)
        {
            for (int i = 0; i < 20000; i++) slots[random.Next(slots.Length)] = new byte[random.Next(200)];
        }
        GC.KeepAlive(slots);
    }

    // Allocates large arrays and keeps none of them.
    static void TemporaryLarge()
    {
        while (!stop)
        {
            for (int i = 0; i < 4; i++) sink = new byte[1000000];
            Thread.Sleep(1);
        }
    }

    // Works quietly for 2 s, then allocates as fast as one thread can for 1 s, repeatedly.
    static void Spike()
    {
        Stopwatch clock = Stopwatch.StartNew();
        while (!stop)
        {
            Serve(1000);
            if (clock.ElapsedMilliseconds % 3000 < 2000) Thread.Sleep(10);
            else for (int i = 0; i < 500; i++) sink = new byte[8000];
        }
    }

    // Passes every object through a queue, so that each object lives just long enough to be promoted, and then dies.
    static void MidLife()
    {
        Queue<Node> queue = new Queue<Node>();
        while (!stop)
        {
            for (int i = 0; i < 4000; i++) queue.Enqueue(Tree(3));
            while (queue.Count > 60000) queue.Dequeue();
            Thread.Sleep(1);
        }
        GC.KeepAlive(queue);
    }

    // Creates hundreds of thousands of weak handles and dependent handles. The last pause of a background collection
    // scans every handle.
    static void ManyWeak()
    {
        ConditionalWeakTable<object, object> table = new ConditionalWeakTable<object, object>();
        object[] keys = new object[400000];
        GCHandle[] weak = new GCHandle[800000];
        for (int i = 0; i < keys.Length && !stop; i++)
        {
            keys[i] = new object();
            table.Add(keys[i], new object());
        }
        for (int i = 0; i < weak.Length && !stop; i++) weak[i] = GCHandle.Alloc(keys[i % keys.Length], GCHandleType.Weak);
        Start(delegate { while (!stop) { GC.Collect(2, GCCollectionMode.Forced, false); Thread.Sleep(100); } });
        while (!stop)
        {
            Serve(2000);
            // The last pause of a background collection marks again the objects that changed while the collection
            // marked.
            for (int i = 0; i < 2000; i++) sink = keys[random.Next(keys.Length)] = keys[random.Next(keys.Length)];
            Thread.Sleep(1);
        }
        GC.KeepAlive(keys);
        GC.KeepAlive(weak);
        GC.KeepAlive(table);
    }

    // Requests background collections that mark two million objects, with many ephemeral collections during each of
    // them.
    static void ManyInBackground()
    {
        Node tree = Tree(19);
        GC.Collect();
        GC.Collect();
        Start(delegate { while (!stop) { GC.Collect(2, GCCollectionMode.Forced, false); Thread.Sleep(300); } });
        while (!stop)
        {
            Serve(6000);
            Thread.Sleep(1);
        }
        GC.KeepAlive(tree);
    }

    // A leak like that of a cache without a bound: each step keeps 20 KB more, up to KeptBytes.
    static void SlowLeak()
    {
        List<byte[]> kept = new List<byte[]>();
        Every(5, delegate { for (int i = 0; i < 20 && kept.Count < KeptBytes / 1000; i++) kept.Add(new byte[1000]); });
        GC.KeepAlive(kept);
    }

    // Allocates handles and never frees them.
    static void HandleLeak()
    {
        object target = new object();
        Every(5, delegate { for (int i = 0; i < 300; i++) GCHandle.Alloc(target, GCHandleType.Weak); });
    }

    // Takes the hash code of each object and then locks the object. Each of these objects needs a sync block.
    static void SyncBlocks()
    {
        List<object> kept = new List<object>();
        Every(5, delegate
        {
            for (int i = 0; i < 400 && kept.Count < 1000000; i++)
            {
                object one = new object();
                RuntimeHelpers.GetHashCode(one);
                lock (one) kept.Add(one);
            }
        });
        GC.KeepAlive(kept);
    }

    sealed class Slower
    {
        readonly byte[] bytes = new byte[100];
        ~Slower() { if (bytes.Length > 0) Thread.Sleep(1); }
    }

    // Creates more finalizable objects than the single finalizer thread can finalize.
    static void SlowFinalizer()
    {
        Every(5, delegate { for (int i = 0; i < 500; i++) sink = new Slower(); });
    }

    sealed class Stuck
    {
        static int count;
        readonly byte[] bytes = new byte[100];
        ~Stuck() { if (bytes.Length > 0 && Interlocked.Increment(ref count) == 5000) while (!stop) Thread.Sleep(20); }
    }

    // The 5000th finalizer does not return until the program stops.
    static void StuckFinalizer()
    {
        Every(5, delegate { for (int i = 0; i < 500; i++) sink = new Stuck(); });
    }

    // Keeps thousands of young pinned arrays, like sockets without pooled buffers.
    static void Pinned()
    {
        Queue<GCHandle> pinned = new Queue<GCHandle>();
        while (!stop)
        {
            for (int i = 0; i < 3000; i++)
            {
                byte[] piece = new byte[1000];
                if (i % 10 == 0) pinned.Enqueue(GCHandle.Alloc(piece, GCHandleType.Pinned));
            }
            while (pinned.Count > 6000) pinned.Dequeue().Free();
            Thread.Sleep(3);
        }
        while (pinned.Count > 0) pinned.Dequeue().Free();
    }

    // Drops three of every four large arrays at the same time. Each later array is larger than the holes.
    static void LargeHoles()
    {
        byte[][] kept = new byte[1200][];
        for (int i = 0; i < kept.Length && !stop; i++) kept[i] = new byte[200000];
        for (int i = 0; i < kept.Length; i++) if (i % 4 != 0) kept[i] = null;
        while (!stop)
        {
            try { sink = new byte[700000]; }
            catch (OutOfMemoryException) { }
            Serve(200);
            Thread.Sleep(5);
        }
        GC.KeepAlive(kept);
    }

    // Drops seven of every eight old small arrays. Background collections do not move the remaining arrays.
    static void OldHoles()
    {
        byte[][] kept = new byte[120000][];
        for (int i = 0; i < kept.Length && !stop; i++) kept[i] = new byte[1000];
        GC.Collect();
        GC.Collect();
        for (int i = 0; i < kept.Length; i++) if (i % 8 != 0) kept[i] = null;
        Every(50, delegate { GC.Collect(2, GCCollectionMode.Forced, false); });
        GC.KeepAlive(kept);
    }

    // Alternates every 2 s: eight threads allocate without a pause, and then all threads sleep after every 3000
    // arrays, the first thread for 3 ms and the other threads for 50 ms.
    static void Oscillate()
    {
        Stopwatch clock = Stopwatch.StartNew();
        Thread[] threads = new Thread[8];
        for (int t = 0; t < threads.Length; t++)
        {
            bool always = t == 0;
            threads[t] = Start(delegate
            {
                byte[][] kept = new byte[3000][];
                for (int i = 0; !stop; i++)
                {
                    kept[i % kept.Length] = new byte[600];
                    if (clock.ElapsedMilliseconds / 2000 % 2 == 1 && i % 3000 == 0) Thread.Sleep(always ? 3 : 50);
                }
                GC.KeepAlive(kept);
            });
        }
        foreach (Thread thread in threads) thread.Join();
    }

    // Allocates more in each no-GC region than the region reserved, so that a collection ends the region.
    static void PastNoGc()
    {
        while (!stop)
        {
            try
            {
                GC.TryStartNoGCRegion(1000000);
                for (int i = 0; i < 60000; i++) sink = new byte[1000];
                GC.EndNoGCRegion();
            }
            catch (InvalidOperationException) { }
            Thread.Sleep(200);
        }
    }

    // Healthy: fills a cache for 2 s, and then serves quietly.
    static void StartUp()
    {
        Dictionary<int, string> cache = new Dictionary<int, string>();
        Stopwatch clock = Stopwatch.StartNew();
        for (int i = 0; clock.ElapsedMilliseconds < 2000 && !stop; i++)
        {
            if (cache.Count < 80000) cache[i] = i.ToString(CultureInfo.InvariantCulture) + " of the cache";
            else Thread.Sleep(1);
            if (i % 10 == 0) Serve(20);
        }
        while (!stop)
        {
            Serve(2000);
            Thread.Sleep(5);
        }
        GC.KeepAlive(cache);
    }

    // Healthy: a batch that reads records, processes each record, keeps 1 in 10 records for the totals, writes the
    // totals, and starts again.
    static void Batch()
    {
        while (!stop)
        {
            Dictionary<int, List<string>> groups = new Dictionary<int, List<string>>();
            for (int i = 0; i < 400000 && !stop; i++)
            {
                string line = "record " + i.ToString(CultureInfo.InvariantCulture) + " of the night, with its address and remarks";
                string[] words = line.Split(' ');
                int key = i % 2000;
                for (int turn = 0; turn < 40; turn++) foreach (char letter in line) key = key * 31 + letter;
                if (i % 10 != 0) continue;
                List<string> group;
                key = Math.Abs(key % 1000);
                if (!groups.TryGetValue(key, out group)) groups[key] = group = new List<string>();
                group.Add(words[1]);
            }
            using (StringWriter writer = new StringWriter())
            {
                foreach (KeyValuePair<int, List<string>> group in groups) writer.WriteLine(group.Key + " " + string.Join(",", group.Value));
                sink = writer;
            }
        }
    }

    // Calls `upTo` ten times per second with the number of bytes that the mode must keep at this time: the size grows
    // by WRATE MB per second (default `mb`) up to WKEEP MB (default 1500).
    static void Grow(int mb, Action<long> upTo)
    {
        double rate = double.Parse(Environment.GetEnvironmentVariable("WRATE") ?? mb.ToString(CultureInfo.InvariantCulture), CultureInfo.InvariantCulture);
        long most = KeptOf(1500000000);
        Stopwatch clock = Stopwatch.StartNew();
        while (!stop)
        {
            Serve(20000);
            upTo(Math.Min(most, (long)(clock.Elapsed.TotalSeconds * rate * 1000000)));
            Thread.Sleep(100);
        }
    }

    // Adds 5 MB per second to a list and never removes an element.
    static void FastLeak()
    {
        List<byte[]> kept = new List<byte[]>();
        Grow(5, delegate (long bytes)
        {
            try { while (kept.Count < bytes / 1000 && !stop) kept.Add(new byte[976]); }
            catch (OutOfMemoryException) { Thread.Sleep(20); }
        });
        GC.KeepAlive(kept);
    }

    // Healthy: a cache that grows by 5 MB per second, is full at WKEEP MB (default 60), and replaces entries all the
    // time.
    static void Plateau()
    {
        long most = KeptOf(60000000);
        List<byte[]> kept = new List<byte[]>();
        Grow(5, delegate (long bytes)
        {
            while (kept.Count < Math.Min(bytes, most) / 1000 && !stop) kept.Add(new byte[976]);
            for (int i = 0; i < 100 && kept.Count > 0; i++) kept[random.Next(kept.Count)] = new byte[976];
        });
        GC.KeepAlive(kept);
    }

    // Allocates 3 MB of native memory per second and never frees it. The size of the managed heap does not change.
    static void NativeLeak()
    {
        long held = 0;
        Grow(3, delegate (long bytes)
        {
            for (; held < bytes && !stop; held += 100000)
            {
                IntPtr piece = Marshal.AllocHGlobal(100000);
                for (int i = 0; i < 100000; i += 1000) Marshal.WriteByte(piece, i, 1);
            }
        });
    }

    sealed class Once
    {
        public readonly bool waits;
        public Once(bool waits) { this.waits = waits; }
        ~Once() { while (waits && !stop) Thread.Sleep(20); }
    }

    // A service that creates at most 100 finalizable objects per second. The finalizer of the 200th object does not
    // return until the program stops.
    static void OneStuckFinalizer()
    {
        int turn = 0;
        Every(10, delegate { sink = new Once(++turn == 200); });
    }

    // Healthy: indexes WKEEP MB (default 200) as fast as one thread can, and then serves quietly.
    static void Burst()
    {
        long most = KeptOf(200000000);
        Dictionary<int, string> index = new Dictionary<int, string>();
        for (int i = 0; i < most / 150 && !stop; i++)
        {
            index[i] = "entry " + i.ToString(CultureInfo.InvariantCulture) + " of the index";
            for (int turn = 0; turn < 10; turn++) sink = new byte[100];
        }
        while (!stop)
        {
            Serve(1000);
            Thread.Sleep(10);
        }
        GC.KeepAlive(index);
    }

    static int Deep(int frames, object a, object b)
    {
        if (frames > 0) return Deep(frames - 1, b, a) + (a == b ? 1 : 0);
        while (!stop) Thread.Sleep(200);
        return 0;
    }

    // Starts 400 threads that wait at a depth of 200 frames. Each frame has references, so every collection scans all
    // of these stacks.
    static void DeepStacks()
    {
        for (int t = 0; t < 400; t++)
        {
            Thread thread = new Thread(delegate () { Deep(200, new object(), new object()); }, 1 << 20);
            thread.IsBackground = true;
            thread.Start();
        }
        Every(2, delegate { Serve(4000); });
    }

    // Requests a background collection of two million objects every 25 s. The runtime ends the thread of background
    // collections after 20 s without a background collection.
    static void QuietBackground()
    {
        Node tree = Tree(19);
        Stopwatch clock = Stopwatch.StartNew();
        int done = 0;
        Every(20, delegate
        {
            if (clock.Elapsed.TotalSeconds < 25 * done) return;
            GC.Collect(2, GCCollectionMode.Forced, false);
            done++;
        });
        GC.KeepAlive(tree);
    }

    // Keeps one of every eight old small arrays (WKEEP MB before the drop, default 160) and pins it, so that no
    // collection can close the holes.
    static void PinnedHoles()
    {
        byte[][] kept = new byte[KeptOf(160000000) / 1000][];
        for (int i = 0; i < kept.Length && !stop; i++)
        {
            kept[i] = new byte[976];
            if (i % 8 == 0) GCHandle.Alloc(kept[i], GCHandleType.Pinned);
        }
        GC.Collect();
        GC.Collect();
        for (int i = 0; i < kept.Length; i++) if (i % 8 != 0) kept[i] = null;
        GC.Collect();
        Every(20, delegate { });
        GC.KeepAlive(kept);
    }

    // Keeps WKEEP MB (default 160), drops all of these objects, and then does little work.
    static void AfterPeak()
    {
        List<byte[]> peak = new List<byte[]>();
        for (long bytes = KeptOf(160000000); bytes > 0 && !stop; bytes -= 8000) peak.Add(new byte[7976]);
        GC.Collect();
        peak = null;
        GC.Collect();
        Every(20, delegate { });
    }
}
