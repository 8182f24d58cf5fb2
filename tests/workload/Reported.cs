// Programs after public bug reports, each the smallest that shows what was reported: `CASE` names it, `SECS` ends it. cases.yaml
// says what is right to say of each.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Program {
  static void Main() {
    switch (Environment.GetEnvironmentVariable("CASE")) {
      case "burst-of-messages": BurstOfMessages.Run(); break;
      case "card-marking": CardMarking.Run(); break;
      case "emergency-ledger": EmergencyLedger.Run(); break;
      case "ordinary": Ordinary.Run(); break;
      case "linked-tokens": LinkedTokens.Run(); break;
      case "loh-churn-limit": LohChurnLimit.Run(); break;
      case "many-threads": ManyThreads.Run(); break;
      case "native-load": NativeLoad.Run(); break;
      case "near-limit-blocks": NearLimitBlocks.Run(); break;
      case "pinned-holes": PinnedHoles.Run(); break;
      case "spike-then-idle": SpikeThenIdle.Run(); break;
      case "startup-then-idle": StartupThenIdle.Run(); break;
      case "timer-churn": TimerChurn.Run(); break;
      case "weak-table-quiet": WeakTableQuiet.Run(); break;
      default: throw new ArgumentException("CASE");
    }
  }
}

static class BurstOfMessages { internal static void Run() { Thread.Sleep(4000); for (int i = 0; i < 8; i++) GC.Collect(); Thread.Sleep(60000); } }

// One large array of references, all written again with a young object before every young collection.
static class CardMarking {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"); int n = int.Parse(Environment.GetEnvironmentVariable("REFS") ?? "30000000");
    var a = new object[n]; var sw = Stopwatch.StartNew(); long x = 0; int rounds = 0;
    while (sw.Elapsed.TotalSeconds < secs) {
      var o = new object(); for (int i = 0; i < a.Length; i++) a[i] = o;
      for (int i = 0; i < 1500; i++) GC.KeepAlive(new string('a', 10000)); rounds++; Thread.Sleep(100);
    }
    Console.WriteLine("rounds {0} gen0 {1} gen2 {2}", rounds, GC.CollectionCount(0), GC.CollectionCount(2)); GC.KeepAlive(a);
  }
}

static class EmergencyLedger { static List<byte[]> keep = new List<byte[]>();
  internal static void Run() { // idle for 40 s, then 250 MiB of small objects within 5 s against DOTNET_GCHeapHardLimit=0x10000000 (256 MiB)
    Thread.Sleep(40000); try { for (int i = 0; i < 20000; i++) { keep.Add(new byte[13000]); if (i % 40 == 0) Thread.Sleep(8); } } catch (OutOfMemoryException) { keep = null; Console.WriteLine("oom"); }
    Thread.Sleep(30000); } }

// An ordinary service: 60 MB live, some MB/s of garbage, a cache that turns over slowly. (For limits and settings around it.)
static class Ordinary {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"); int live = int.Parse(Environment.GetEnvironmentVariable("LIVE_MB") ?? "60"), rate = int.Parse(Environment.GetEnvironmentVariable("RATE_MB") ?? "30"), threads = int.Parse(Environment.GetEnvironmentVariable("WORKERS") ?? "1"); var sw = Stopwatch.StartNew(); int n = live * 1000 / threads;
    var ts = new List<Thread>(); for (int k = 0; k < threads; k++) { int seed = k; var t = new Thread(() => { var cache = new byte[n][]; var rnd = new Random(seed); long x = 0; for (int i = 0; i < n; i++) cache[i] = new byte[1000];
      while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < rate * 10 / threads; i++) { GC.KeepAlive(new byte[1000]); if (i % 50 == 0) cache[rnd.Next(n)] = new byte[1000]; } Thread.Sleep(10); } }); t.Start(); ts.Add(t); }
    foreach (var t in ts) t.Join(); Console.WriteLine("gcs {0} {1} {2}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));
  }
}

// Linked cancellation tokens of a shared, long-lived source that nobody disposes of.
static class LinkedTokens {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "660"); var app = new CancellationTokenSource(); var sw = Stopwatch.StartNew(); long n = 0; int each = int.Parse(Environment.GetEnvironmentVariable("EACH") ?? "12");
    while (sw.Elapsed.TotalSeconds < secs) {
      for (int i = 0; i < each; i++) { var request = new CancellationTokenSource(); var linked = CancellationTokenSource.CreateLinkedTokenSource(app.Token, request.Token); linked.Token.Register(() => { }); n++; }
      for (int i = 0; i < 600; i++) GC.KeepAlive(new byte[400]); Thread.Sleep(10);
    }
    Console.WriteLine("linked {0} heap {1} MB gen2 {2}", n, GC.GetTotalMemory(false) >> 20, GC.CollectionCount(2)); GC.KeepAlive(app);
  }
}

// Images of 1 MB, 20 of them alive at a time, 150 MB/s through the large object heap, in a container of 340 MB: no request ever fails.
static class LohChurnLimit {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"), mb = int.Parse(Environment.GetEnvironmentVariable("BUF_KB") ?? "1024"); var sw = Stopwatch.StartNew(); int oom = 0, ok = 0; var live = new Queue<byte[]>();
    while (sw.Elapsed.TotalSeconds < secs) { try { var b = new byte[mb << 10]; b[0] = 1; live.Enqueue(b); while (live.Count > 20) live.Dequeue(); ok++; } catch (OutOfMemoryException) { oom++; } Thread.Sleep(6); }
    Console.WriteLine("ok {0} failed {1} gcs {2} {3}", ok, oom, GC.CollectionCount(0), GC.CollectionCount(2));
  }
}

// Three thousand threads that sleep in a shallow stack (one thread for each connection), beside ordinary work.
static class ManyThreads {
  static void Wait(ManualResetEventSlim e, int d) { if (d > 0) { Wait(e, d - 1); GC.KeepAlive(d); } else e.Wait(); }
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"); int n = int.Parse(Environment.GetEnvironmentVariable("THREADS") ?? "3000"); var e = new ManualResetEventSlim(); var sw = Stopwatch.StartNew(); long x = 0;
    for (int i = 0; i < n; i++) new Thread(() => Wait(e, 12), 256 * 1024) { IsBackground = true }.Start();
    Console.WriteLine("{0:f1} s: threads up", sw.Elapsed.TotalSeconds); Console.Out.Flush();
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 6000; i++) GC.KeepAlive(new byte[500]); Thread.Sleep(5); }
    Console.WriteLine("gcs {0} {1} {2}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));
  }
}

// A small managed heap beside a native library that fills most of the container (model files, image buffers).
static class NativeLoad {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"), mb = int.Parse(Environment.GetEnvironmentVariable("NATIVE_MB") ?? "320"); var sw = Stopwatch.StartNew(); var rnd = new Random(1); int n = 20000; var cache = new byte[n][];
    for (int k = 0; k < mb; k++) { var p = Marshal.AllocHGlobal(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) Marshal.WriteByte(p, i, 1); }
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 400; i++) { GC.KeepAlive(new byte[1000]); if (i % 20 == 0) cache[rnd.Next(n)] = new byte[1000]; } Thread.Sleep(10); }
    Console.WriteLine("gcs {0} {1} {2}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2)); GC.KeepAlive(cache);
  }
}

// A first-in-first-out cache of 80 KB blocks that fills its heap's hard limit almost to the brim, 100 MB/s through it.
static class NearLimitBlocks {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"); int mb = int.Parse(Environment.GetEnvironmentVariable("LIVE_MB") ?? "172"); var sw = Stopwatch.StartNew(); int oom = 0; long n = 0;
    var q = new Queue<byte[]>(); int max = mb * 1024 / 80;
    while (sw.Elapsed.TotalSeconds < secs) {
      try { for (int i = 0; i < 13; i++) { q.Enqueue(new byte[80 * 1024 - 24]); n++; while (q.Count > max) q.Dequeue(); } } catch (OutOfMemoryException) { oom++; while (q.Count > max - 50) q.Dequeue(); }
      Thread.Sleep(10);
    }
    Console.WriteLine("blocks {0} oom {1} gcs {2} {3} {4}", n, oom, GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));
  }
}

// Receive buffers that are pinned for each of many idle connections, made between ordinary garbage, under a hard limit.
static class PinnedHoles {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "150"); var sw = Stopwatch.StartNew(); var pins = new List<GCHandle>(); var junk = new List<byte[]>(); int oom = 0;
    while (sw.Elapsed.TotalSeconds < secs) {
      try { for (int i = 0; i < 200; i++) { junk.Add(new byte[20000]); if (i % 4 == 0 && pins.Count < 12000) pins.Add(GCHandle.Alloc(new byte[4096], GCHandleType.Pinned)); } if (junk.Count > 2000) junk.Clear(); } catch (OutOfMemoryException) { oom++; junk.Clear(); }
      Thread.Sleep(40);
    }
    Console.WriteLine("pins {0} oom {1} gcs {2} {3} {4}", pins.Count, oom, GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));
  }
}

// A burst of requests needs 700 MB for some seconds; afterwards the process serves almost nothing.
static class SpikeThenIdle {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "420"); var sw = Stopwatch.StartNew(); long x = 0;
    Thread.Sleep(15000);
    var l = new List<byte[]>(); for (int i = 0; i < 700 * 1024; i++) { l.Add(new byte[1000]); if (i % 2000 == 0) Thread.Sleep(8); }
    Console.WriteLine("{0:f0} s: peak, heap {1} MB", sw.Elapsed.TotalSeconds, GC.GetTotalMemory(false) >> 20); l = null;
    double next = 0;
    while (sw.Elapsed.TotalSeconds < secs) {
      for (int i = 0; i < 20; i++) GC.KeepAlive(new byte[1000]); Thread.Sleep(50);
      if (sw.Elapsed.TotalSeconds > next) { next = sw.Elapsed.TotalSeconds + 30; foreach (var s in File.ReadLines("/proc/self/status")) if (s.StartsWith("VmRSS")) Console.WriteLine("{0:f0} s: {1} heap {2} MB gcs {3}", sw.Elapsed.TotalSeconds, s, GC.GetTotalMemory(false) >> 20, GC.CollectionCount(0)); Console.Out.Flush(); }
    }
  }
}

// A service that reads its data at start (some objects with a finalizer die meanwhile) and then has nothing to do.
static class StartupThenIdle {
  sealed class Handle { ~Handle() { } }
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "170"); var sw = Stopwatch.StartNew(); var data = new List<object>(); double load = double.Parse(Environment.GetEnvironmentVariable("LOAD") ?? "4");
    while (sw.Elapsed.TotalSeconds < load) { for (int i = 0; i < 20000; i++) data.Add(new byte[40]); for (int i = 0; i < 20; i++) GC.KeepAlive(new Handle()); if (data.Count % 100000 == 0) data.Add(new byte[400000]); Thread.Sleep(10); }
    Console.WriteLine("{0:f1} s: ready, {1} MB, gcs {2} {3} {4}", sw.Elapsed.TotalSeconds, GC.GetTotalMemory(false) >> 20, GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2)); Console.Out.Flush();
    while (sw.Elapsed.TotalSeconds < secs) { GC.KeepAlive(new byte[1000]); Thread.Sleep(1000); }
    GC.KeepAlive(data);
  }
}

// A retry policy that makes a Timer for each call, with a due time of an hour, and forgets it.
static class TimerChurn {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "660"); var sw = Stopwatch.StartNew(); long n = 0;
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 40; i++) { var body = new byte[600]; new Timer(o => { }, body, 3600000, -1); n++; } for (int i = 0; i < 600; i++) GC.KeepAlive(new byte[400]); Thread.Sleep(10); }
    Console.WriteLine("timers {0} heap {1} MB gen2 {2}", n, GC.GetTotalMemory(false) >> 20, GC.CollectionCount(2));
  }
}

// A ConditionalWeakTable with many entries that stay, and ordinary garbage beside it.
static class WeakTableQuiet {
  sealed class Extra { public object A, B; }
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "150"); int n = int.Parse(Environment.GetEnvironmentVariable("ENTRIES") ?? "1500000");
    var keep = new List<object>(n); var t = new ConditionalWeakTable<object, Extra>();
    for (int i = 0; i < n; i++) { var o = new object(); keep.Add(o); t.Add(o, new Extra { A = o, B = new object() }); }
    var sw = Stopwatch.StartNew(); long x = 0; int g0 = GC.CollectionCount(0);
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 20000; i++) x += new byte[200].Length; Thread.Sleep(5); }
    Console.WriteLine("collections {0}, live {1}", GC.CollectionCount(0) - g0, keep.Count); GC.KeepAlive(t); GC.KeepAlive(keep);
  }
}
