// A service with a steady load that does not depend on its pauses. tests/advice/run predicts its collections with other
// settings and limits, and then measures them.
//
// MBS      MB of small objects per second, over all threads
// OBJECT   bytes of a small object
// LIVE     MB of old objects, which have the size OBJECT
// REPLACE  KB of old objects that are replaced per second, at random places
// KEEP     percent of the small objects that live for KEEPMS milliseconds
// KEEPMS   lifetime of these kept objects, in milliseconds
// LARGE    MB of large objects (100 to 500 KB) per second
// THREADS  threads that allocate
// SECS     duration after "ready"
//
// The service prints "ready" when the old objects exist. At the end, the service prints GC.CollectionCount of each
// generation and the total pause in milliseconds, or null if the runtime does not report the total pause. The service
// exits with code 42 if an allocation fails.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Reflection;
using System.Threading;

static class Advised {
  static byte[][] old;
  static volatile bool stop;
  static int failed;

  static int Number(string name, int otherwise) {
    string text = Environment.GetEnvironmentVariable(name);
    return string.IsNullOrEmpty(text) ? otherwise : int.Parse(text);
  }

  sealed class Kept {
    internal long Until;
    internal byte[] Body;
  }

  static void Serve(int seed, double bytesPerMs, int size, double replacedPerMs, int keepPercent, int keepMs, double largePerMs) {
    try {
      var random = new Random(seed);
      var kept = new Queue<Kept>();
      object last = null;
      double small = 0, replaced = 0, large = 0;
      Stopwatch watch = Stopwatch.StartNew();
      long before = 0;
      while (!stop) {
        long now = watch.ElapsedMilliseconds;
        // A pause does not reduce the work: the thread does the missed work after the pause, up to the work of 1 s.
        long passed = Math.Min(now - before, 1000);
        before = now;
        small += passed * bytesPerMs;
        replaced += passed * replacedPerMs;
        large += passed * largePerMs;
        while (small >= size) {
          small -= size;
          var body = new byte[size - 24];
          last = body;
          if (keepPercent > 0 && random.Next(100) < keepPercent) kept.Enqueue(new Kept { Until = now + keepMs, Body = body });
        }
        while (replaced >= size) {
          replaced -= size;
          old[random.Next(old.Length)] = new byte[size - 24];
        }
        while (large >= 300000) {
          last = new byte[random.Next(100000, 500000)];
          large -= ((byte[])last).Length;
        }
        while (kept.Count > 0 && kept.Peek().Until <= now) kept.Dequeue();
        Thread.Sleep(1);
      }
      GC.KeepAlive(last);
    } catch (OutOfMemoryException) {
      Interlocked.Exchange(ref failed, 1);
      Environment.Exit(42);
    }
  }

  static string Paused() {
    MethodInfo method = typeof(GC).GetMethod("GetTotalPauseDuration", Type.EmptyTypes);
    return method == null ? "null" : ((long)((TimeSpan)method.Invoke(null, null)).TotalMilliseconds).ToString();
  }

  static int Main() {
    int size = Math.Max(32, Number("OBJECT", 128)), threads = Math.Max(1, Number("THREADS", 1));
    double scale = 1000.0 * threads;
    try {
      long count = (long)Number("LIVE", 0) * 1000000 / size;
      old = new byte[Math.Max(1, count)][];
      for (long i = 0; i < count; i++) old[i] = new byte[size - 24];
    } catch (OutOfMemoryException) {
      return 42;
    }
    double small = Number("MBS", 100) * 1e6 / scale, replaced = Number("REPLACE", 0) * 1e3 / scale, large = Number("LARGE", 0) * 1e6 / scale;
    int keep = Number("KEEP", 0), keepMs = Number("KEEPMS", 500);
    var all = new List<Thread>();
    for (int i = 0; i < threads; i++) {
      int seed = i;
      var thread = new Thread(() => Serve(seed, small, size, replaced, keep, keepMs, large));
      thread.Start();
      all.Add(thread);
    }
    Console.WriteLine("ready");
    Console.Out.Flush();
    Thread.Sleep(Number("SECS", 60) * 1000);
    stop = true;
    foreach (Thread thread in all) thread.Join();
    if (failed != 0) return 42;
    Console.WriteLine("{{\"gen0\":{0},\"gen1\":{1},\"gen2\":{2},\"paused_ms\":{3}}}", GC.CollectionCount(0), GC.CollectionCount(1), GC.CollectionCount(2), Paused());
    return 0;
  }
}
