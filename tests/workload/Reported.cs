// Programs based on public bug reports, each as small as possible. `CASE` selects the program, and `SECS` is the number of
// seconds until it exits. tests/labelled/cases.yaml has the right verdict on each program.
using System;
using System.Buffers;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Reflection;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Program {
  static void Main() {
    switch (Environment.GetEnvironmentVariable("CASE")) {
      case "address-space": AddressSpace.Run(); break;
      case "big-array-fails": BigArrayFails.Run(); break;
      case "burst-of-messages": BurstOfMessages.Run(); break;
      case "card-marking": CardMarking.Run(); break;
      case "emergency-ledger": EmergencyLedger.Run(); break;
      case "fast-oom": FastOom.Run(); break;
      case "helper-beside": HelperBeside.Run(); break;
      case "late-rush": LateRush.Run(); break;
      case "leak-managed": LeakManaged.Run(); break;
      case "linked-tokens": LinkedTokens.Run(); break;
      case "loh-churn-limit": LohChurnLimit.Run(); break;
      case "low-latency-left": LowLatencyLeft.Run(); break;
      case "many-threads": ManyThreads.Run(); break;
      case "missing-names": MissingNames.Run(); break;
      case "native-load": NativeLoad.Run(); break;
      case "near-limit-blocks": NearLimitBlocks.Run(); break;
      case "ordinary": Ordinary.Run(); break;
      case "oversize-rents": OversizeRents.Run(); break;
      case "pinned-holes": PinnedHoles.Run(); break;
      case "pressure-storm": PressureStorm.Run(); break;
      case "reload-copies": ReloadCopies.Run(); break;
      case "spike-then-idle": SpikeThenIdle.Run(); break;
      case "stable-81": Stable81.Run(); break;
      case "startup-then-idle": StartupThenIdle.Run(); break;
      case "timer-churn": TimerChurn.Run(); break;
      case "tmpfs-files": TmpfsFiles.Run(); break;
      case "warm-up-index": WarmUpIndex.Run(); break;
      case "weak-table-quiet": WeakTableQuiet.Run(); break;
      default: throw new ArgumentException("CASE");
    }
  }
}

static class BurstOfMessages { internal static void Run() { Thread.Sleep(4000); for (int i = 0; i < 8; i++) GC.Collect(); Thread.Sleep(60000); } }

// One large array of references. Before each young collection, the program writes a new young object to every element.
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
  internal static void Run() { // The program is idle for 40 s, and then allocates 250 MiB of small objects within 5 s, under DOTNET_GCHeapHardLimit=0x10000000 (256 MiB).
    Thread.Sleep(40000); try { for (int i = 0; i < 20000; i++) { keep.Add(new byte[13000]); if (i % 40 == 0) Thread.Sleep(8); } } catch (OutOfMemoryException) { keep = null; Console.WriteLine("oom"); }
    Thread.Sleep(30000); } }

// An ordinary service with LIVE_MB of live objects (default 60), RATE_MB of garbage per second (default 30) and a cache
// that slowly replaces its entries.
static class Ordinary {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"); int live = int.Parse(Environment.GetEnvironmentVariable("LIVE_MB") ?? "60"), rate = int.Parse(Environment.GetEnvironmentVariable("RATE_MB") ?? "30"), threads = int.Parse(Environment.GetEnvironmentVariable("WORKERS") ?? "1"); var sw = Stopwatch.StartNew(); int n = live * 1000 / threads;
    var ts = new List<Thread>(); for (int k = 0; k < threads; k++) { int seed = k; var t = new Thread(() => { var cache = new byte[n][]; var rnd = new Random(seed); long x = 0; for (int i = 0; i < n; i++) cache[i] = new byte[1000];
      while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < rate * 10 / threads; i++) { GC.KeepAlive(new byte[1000]); if (i % 50 == 0) cache[rnd.Next(n)] = new byte[1000]; } Thread.Sleep(10); } }); t.Start(); ts.Add(t); }
    foreach (var t in ts) t.Join(); Console.WriteLine("gcs {0} {1} {2}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2));
  }
}

// The program links cancellation tokens to a shared, long-lived source, and never disposes of the linked sources.
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

// The program allocates 150 MB/s of images in a container of 340 MB. Each image is a large object of 1 MB, and 20
// images are live at the same time. No allocation fails.
static class LohChurnLimit {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"), mb = int.Parse(Environment.GetEnvironmentVariable("BUF_KB") ?? "1024"); var sw = Stopwatch.StartNew(); int oom = 0, ok = 0; var live = new Queue<byte[]>();
    while (sw.Elapsed.TotalSeconds < secs) { try { var b = new byte[mb << 10]; b[0] = 1; live.Enqueue(b); while (live.Count > 20) live.Dequeue(); ok++; } catch (OutOfMemoryException) { oom++; } Thread.Sleep(6); }
    Console.WriteLine("ok {0} failed {1} gcs {2} {3}", ok, oom, GC.CollectionCount(0), GC.CollectionCount(2));
  }
}

// Three thousand threads wait with a shallow stack (one thread per connection), while another thread does ordinary
// work.
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

// The managed heap is small. A native library fills most of the container (model files, image buffers).
static class NativeLoad {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "120"), mb = int.Parse(Environment.GetEnvironmentVariable("NATIVE_MB") ?? "320"); var sw = Stopwatch.StartNew(); var rnd = new Random(1); int n = 20000; var cache = new byte[n][];
    for (int k = 0; k < mb; k++) { var p = Marshal.AllocHGlobal(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) Marshal.WriteByte(p, i, 1); }
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 400; i++) { GC.KeepAlive(new byte[1000]); if (i % 20 == 0) cache[rnd.Next(n)] = new byte[1000]; } Thread.Sleep(10); }
    Console.WriteLine("gcs {0} {1} {2}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2)); GC.KeepAlive(cache);
  }
}

// A first-in-first-out cache of 80 KB blocks with a throughput of 100 MB/s. It fills the heap almost to its hard limit.
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

// The program allocates pinned receive buffers for many idle connections between ordinary garbage, under a hard limit.
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

// A burst of requests needs 700 MB for some seconds. Afterwards, the process serves almost no requests.
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

// A service that reads its data at its start and is idle afterwards. While it reads, some objects with a finalizer die.
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

// A retry policy that creates a Timer with a due time of one hour for each call, and never disposes of the Timer.
static class TimerChurn {
  internal static void Run() {
    int secs = int.Parse(Environment.GetEnvironmentVariable("SECS") ?? "660"); var sw = Stopwatch.StartNew(); long n = 0;
    while (sw.Elapsed.TotalSeconds < secs) { for (int i = 0; i < 40; i++) { var body = new byte[600]; new Timer(o => { }, body, 3600000, -1); n++; } for (int i = 0; i < 600; i++) GC.KeepAlive(new byte[400]); Thread.Sleep(10); }
    Console.WriteLine("timers {0} heap {1} MB gen2 {2}", n, GC.GetTotalMemory(false) >> 20, GC.CollectionCount(2));
  }
}

// A ConditionalWeakTable keeps many entries, while the program allocates ordinary garbage.
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

// The clock of a program, the numbers from its environment, and a line with its GC counters, which the program prints
// every 10 s if SAY=1.
static class Say {
  internal static readonly Stopwatch Clock = Stopwatch.StartNew(); internal static volatile string Extra = "";
  static readonly MethodInfo paused = typeof(GC).GetMethod("GetTotalPauseDuration");
  internal static int Num(string name, int otherwise) { string s = Environment.GetEnvironmentVariable(name); return string.IsNullOrEmpty(s) ? otherwise : int.Parse(s); }
  static readonly int secs = Num("SECS", 120);
  internal static double T { get { return Clock.Elapsed.TotalSeconds; } }
  internal static bool On { get { return T < secs; } }
  internal static void Line(string extra) {
    try { Print(extra); } catch (OutOfMemoryException) { }
  }
  static void Print(string extra) {
    Console.WriteLine("{0,5:f1} s  gcs {1}/{2}/{3}  paused {4:f1} s  heap {5} MiB  resident {6} MiB  {7}", T, GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2),
      paused == null ? -1 : ((TimeSpan)paused.Invoke(null, null)).TotalSeconds, GC.GetTotalMemory(false) >> 20, Environment.WorkingSet >> 20, extra);
    Console.Out.Flush();
  }
  internal static void Start() {
    if (Num("SAY", 0) == 0) return;
    new Thread(() => { while (On) { Line(Extra); Thread.Sleep(10000); } }) { IsBackground = true }.Start();
  }
  // Allocates ordinary garbage: `n` objects of 1 KB.
  internal static void Garbage(int n) { for (int i = 0; i < n; i++) GC.KeepAlive(new byte[1000]); }
}

// A node of a binary tree.
sealed class Node {
  internal Node Left, Right; internal long Value;
  internal static Node Tree(int depth) { return depth == 0 ? null : new Node { Value = depth, Left = Tree(depth - 1), Right = Tree(depth - 1) }; }
  // Returns trees with at least `count` nodes in total. A tree of depth 14 has 2^14 - 1 nodes.
  internal static List<Node> Forest(int count) { var all = new List<Node>(); for (; count > 0; count -= 16383) all.Add(Tree(14)); return all; }
}

// The process has less address space than the machine has memory (ulimit -v, or a small range of regions). The live
// heap fills the address space. The runtime reports no limit, collections for lack of space follow each other, and
// allocations fail. After each failure, the program drops 5 % of its cache.
static class AddressSpace {
  internal static void Run() {
    Say.Start(); var cache = new List<byte[]>(); int failed = 0, rate = Say.Num("RATE_MB", 20), percent = Say.Num("DROP", 5);
    while (Say.On) {
      try { for (int i = 0; i < rate * 50; i++) cache.Add(new byte[1000]); }
      catch (OutOfMemoryException) { failed++; cache.RemoveRange(0, cache.Count * percent / 100); if (failed == 1) Say.Line("first failure"); }
      Say.Extra = "failed " + failed; Thread.Sleep(50);
    }
    GC.KeepAlive(cache);
  }
}

// The program has 150 MB of live objects and some garbage. Every 2 s it allocates an array of 200 MB, which never fits
// under the limit of 300 MB, although the collection before each failure frees more than 5 %.
static class BigArrayFails {
  internal static void Run() {
    Say.Start(); int mb = Say.Num("LIVE_MB", 150), array = Say.Num("ARRAY_MB", 200), junk = Say.Num("JUNK_MB", 40), from = Say.Num("FROM", 5), failed = 0, fit = 0;
    var live = new List<byte[]>(); for (int i = 0; i < mb * 1000; i++) live.Add(new byte[1000 - 24]);
    double next = from;
    while (Say.On) {
      // The rows of a report live until the program allocates the array.
      var rows = new List<byte[]>(); for (int i = 0; i < junk * 1000; i++) { rows.Add(new byte[1000 - 24]); if (i % 1000 == 0) Thread.Sleep(10); }
      rows = null; while (Say.T < next) Thread.Sleep(10); next += 2;
      try { var b = new byte[array * 1000000]; b[0] = 1; fit++; } catch (OutOfMemoryException) { if (failed++ == 0) Say.Line("first failure"); }
      Say.Extra = "failed " + failed + " fit " + fit;
    }
    GC.KeepAlive(live);
  }
}

// A query without a filter loads a whole table: entities with strings, an identity map and a snapshot of each entity, as an object mapper
// keeps them. The process dies of an unhandled OutOfMemoryException.
static class FastOom {
  sealed class Order { internal int Id; internal string Customer, Address, Comment; internal decimal Total; internal DateTime At; internal List<Line> Lines = new List<Line>(); }
  sealed class Line { internal Order Order; internal string Product; internal int Count; internal decimal Price; }
  sealed class Entry { internal object Entity; internal object[] Original; }
  internal static void Run() {
    Say.Start(); var map = new Dictionary<int, Entry>(); var result = new List<Order>(); int rate = Say.Num("ROWS", 10500), from = Say.Num("FROM", 2), n = 0;
    while (Say.On) {
      for (; n < (Say.T - from) * rate; n++) {
        var order = new Order { Id = n, Customer = "customer " + n, Address = new string((char)('a' + n % 26), 60), Comment = new string('x', 100), Total = n * 1.1m, At = DateTime.UtcNow };
        for (int k = 0; k < 3; k++) order.Lines.Add(new Line { Order = order, Product = "product " + n % 1000 + "/" + k, Count = k, Price = k * 2.5m });
        map.Add(n, new Entry { Entity = order, Original = new object[] { order.Id, order.Customer, order.Address, order.Comment, order.Total, order.At } });
        result.Add(order); GC.KeepAlive(new byte[300]);
      }
      Say.Extra = "rows " + n; Thread.Sleep(20);
    }
    GC.KeepAlive(map); GC.KeepAlive(result);
  }
}

// A converter, in another process of the same container, starts 20 s after the program and holds HELPER_MB for 75 s.
// `tail` keeps its whole input, because the input has no line end.
static class HelperBeside {
  internal static void Run() {
    Say.Start(); int mb = Say.Num("HELPER_MB", 310), from = Say.Num("FROM", 20), stay = Say.Num("STAY", 75); var live = Node.Forest(100000); Process helper = null;
    while (Say.On) {
      if (helper == null && Say.T >= from) helper = Process.Start("/bin/sh", "-c \"(head -c " + mb + "m /dev/zero; sleep " + stay + ") | tail >/dev/null\"");
      Say.Garbage(300); Say.Extra = helper == null ? "no helper yet" : helper.HasExited ? "helper has exited" : "helper runs"; Thread.Sleep(20);
    }
    GC.KeepAlive(live);
  }
}

// After 15 quiet seconds, a query keeps 20 MB/s until the hard limit of 400 MB. The program catches the failure, drops the
// result and continues to serve requests.
static class LateRush {
  internal static void Run() {
    Say.Start(); int from = Say.Num("FROM", 15), rate = Say.Num("RATE_MB", 20); var kept = new List<byte[]>(); bool over = false; long added = 0;
    while (Say.On) {
      try {
        for (; !over && Say.T > from && added < (Say.T - from) * rate * 1000; added++) kept.Add(new byte[1000 - 24]);
        Say.Garbage(20);
      } catch (OutOfMemoryException) { over = true; kept = new List<byte[]>(); Say.Line("failed"); }
      Say.Extra = "kept " + kept.Count / 1000 + " MB"; Thread.Sleep(20);
    }
  }
}

// The program adds 25 MiB of sessions per minute to a dictionary and never removes a session. It also allocates
// ordinary garbage.
static class LeakManaged {
  sealed class Session { internal string User; internal byte[] State; internal List<string> Log = new List<string>(); }
  internal static void Run() {
    Say.Start(); var sessions = new Dictionary<string, Session>(); int kb = Say.Num("LEAK_KB", 410); long n = 0, kept = 0;
    while (Say.On) {
      for (; kept < Say.T * kb; n++, kept += 2) { var s = new Session { User = "user " + n, State = new byte[1400] }; for (int k = 0; k < 4; k++) s.Log.Add("step " + n + "/" + k); sessions.Add("session " + n, s); }
      Say.Garbage(200); Say.Extra = "sessions " + sessions.Count; Thread.Sleep(20);
    }
    GC.KeepAlive(sessions);
  }
}

// A library sets LowLatency mode at its start and never resets the mode. The runtime starts no more full collections,
// and objects that die after their promotion stay in the heap. 40 MB of objects are live, and 4 MB/s pass through the
// queue.
static class LowLatencyLeft {
  internal static void Run() {
    Say.Start(); int from = Say.Num("FROM", 0); var live = new Queue<byte[]>(); bool set = false;
    while (Say.On) {
      if (!set && Say.T >= from) { GCSettings.LatencyMode = GCLatencyMode.LowLatency; set = true; }
      for (int i = 0; i < 40; i++) { live.Enqueue(new byte[5000]); if (live.Count > 8000) live.Dequeue(); }
      for (int i = 0; i < 400; i++) GC.KeepAlive(new byte[2000]);
      Say.Extra = "live " + live.Count / 200 + " MB"; Thread.Sleep(50);
    }
  }
}

// A program looks for files that do not exist, each under another name. The kernel keeps an entry for each name, charges
// the entry to the container, and reclaims the entry only when the container needs the memory.
static class MissingNames {
  internal static void Run() {
    Say.Start(); string folder = Path.Combine(Path.GetTempPath(), "missing-names"); Directory.CreateDirectory(folder); long n = 0; string tail = new string('n', 120);
    while (Say.On) { for (int i = 0; i < 900; i++) if (File.Exists(folder + "/" + tail + n++)) throw new InvalidOperationException(); GC.KeepAlive(new byte[100000]); Say.Extra = "asked " + n; Thread.Sleep(20); }
  }
}

// The program rents buffers of 1.2 MB from a pool that keeps no buffer above 1 MB. Each buffer is a new large object,
// and only full collections free it. Millions of objects are live, and background collections are off
// (DOTNET_gcConcurrent=0).
static class OversizeRents {
  internal static void Run() {
    Say.Start(); var live = Node.Tree(Say.Num("DEPTH", 23)); int each = Say.Num("RENTS", 4); var pool = ArrayPool<byte>.Create(); int n = 0;
    while (Say.On) { for (int i = 0; i < each; i++) { var b = pool.Rent(1200000); b[0] = 1; b[1000000] = 2; pool.Return(b); n++; } Say.Garbage(20); Say.Extra = "rents " + n; Thread.Sleep(10); }
    GC.KeepAlive(live);
  }
}

// A wrapper around native images calls GC.AddMemoryPressure for each image, in a process with 5 million live objects.
// The runtime requests full collections.
static class PressureStorm {
  internal static void Run() {
    Say.Start(); var live = Node.Forest(Say.Num("OBJECTS", 5000000)); int hertz = Say.Num("HERTZ", 25), mb = Say.Num("IMAGE_MB", 50), from = Say.Num("FROM", 0); long n = 0;
    while (Say.On) {
      for (; Say.T > from && n < (Say.T - from) * hertz; n++) { GC.AddMemoryPressure(mb * 1000000L); Say.Garbage(20); GC.RemoveMemoryPressure(mb * 1000000L); }
      Say.Garbage(20); Say.Extra = "images " + n; Thread.Sleep(10);
    }
    GC.KeepAlive(live);
  }
}

// Every 40 s the program reads a new copy of its data, with a native index, while requests use the old copy. The
// program drops the old copy 3 s after the new copy is complete. The peaks do not rise.
static class ReloadCopies {
  static Dictionary<int, byte[]> data; static IntPtr index;
  internal static void Run() {
    Say.Start(); int mb = Say.Num("DATA_MB", 120), native = Say.Num("NATIVE_MB", 25) << 20, every = Say.Num("EVERY", 40), load = Say.Num("LOAD", 5), both = Say.Num("BOTH", 3), n = 0; double next = 0;
    while (Say.On) {
      if (Say.T >= next) {
        next += every; var copy = new Dictionary<int, byte[]>(); double begun = Say.T; var of = Marshal.AllocHGlobal(native + 1); for (int i = 0; i < native; i += 4096) Marshal.WriteByte(of, i, 1);
        for (int i = 0; i < mb * 1000; i++) { copy.Add(i, new byte[1000 - 24]); GC.KeepAlive(new byte[500]); if (i % 500 == 0) while (Say.T - begun < (double)i * load / (mb * 1000)) Thread.Sleep(1); }
        while (Say.T - begun < load + both) { Say.Garbage(200); Thread.Sleep(20); }
        data = copy; if (index != IntPtr.Zero) Marshal.FreeHGlobal(index); index = of; n++; if (Say.Num("SAY", 0) != 0) Say.Line("copy " + n);
      }
      Say.Garbage(200); Say.Extra = "copies " + n; Thread.Sleep(20);
    }
    GC.KeepAlive(data);
  }
}

// A service whose data (small objects) takes LIVE_MB of the hard limit of its heap. Requests add garbage, and replace a small part of the data.
static class Stable81 {
  internal static void Run() {
    Say.Start(); int n = Say.Num("LIVE_MB", 162) * 1000, failed = 0; var data = new byte[n][]; var pick = new Random(1);
    for (int i = 0; i < n; i++) { data[i] = new byte[1000 - 32]; if (i % 10000 == 0) Thread.Sleep(10); }
    while (Say.On) {
      try { for (int i = 0; i < 100; i++) { GC.KeepAlive(new byte[1000]); if (i % 20 == 0) data[pick.Next(n)] = new byte[1000 - 32]; } } catch (OutOfMemoryException) { failed++; }
      Say.Extra = "failed " + failed; Thread.Sleep(10);
    }
    GC.KeepAlive(data);
  }
}

// The program writes files to a tmpfs within some seconds and keeps the files open. The kernel charges the files to the
// container. The files have no names, so the kernel frees their memory when the process exits.
static class TmpfsFiles {
  internal static void Run() {
    Say.Start(); int mb = Say.Num("FILES_MB", 262), from = Say.Num("FROM", 5); string folder = Environment.GetEnvironmentVariable("TMPFS") ?? "/dev/shm"; var files = new List<FileStream>(); var block = new byte[1 << 20]; block[0] = 1; var live = Node.Forest(100000);
    while (Say.On) {
      if (Say.T >= from && files.Count < mb) {
        string path = Path.Combine(folder, "gcwatch-" + Process.GetCurrentProcess().Id + "-" + files.Count); var file = new FileStream(path, FileMode.CreateNew); File.Delete(path);
        file.Write(block, 0, block.Length); file.Flush(); files.Add(file);
      }
      Say.Garbage(200); Say.Extra = "files " + files.Count + " MiB"; Thread.Sleep(20);
    }
    GC.KeepAlive(files); GC.KeepAlive(live);
  }
}

// A search service reads its index for two minutes (at most 360 MiB of small objects), and then serves requests.
static class WarmUpIndex {
  sealed class Doc { internal string Title; internal int[] Terms; internal Doc Next; }
  internal static void Run() {
    Say.Start(); int until = Say.Num("UNTIL", 120), n = 0; var index = new Dictionary<int, Doc>(); Doc last = null;
    while (Say.On) {
      if (Say.T < until) for (int i = 0; i < 520; i++) { last = new Doc { Title = new string((char)('a' + n % 26), 60), Terms = new int[16], Next = last }; index[n++] = last; }
      Say.Garbage(300); Say.Extra = "documents " + n; Thread.Sleep(50);
    }
    GC.KeepAlive(index);
  }
}
