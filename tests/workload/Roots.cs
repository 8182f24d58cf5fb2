// A service that allocates at a steady rate, and has one kind of roots that makes its collections longer. tests/accounts/run
// compares the service with the same service without these roots.
//
// ROOTS    kind of roots: none, stacks, handles, dependent, old
// N        threads of 60 frames, handles, table entries, or old slots that are written before each collection
// OBJECT   bytes of each surviving object: a node for at most 64 bytes, otherwise a node with an array
// SURVIVE  KiB that survive each young collection
// PLACE    holder of the surviving objects: stack, old, handle
// MBS      MB of garbage per second
// SECS     seconds until the service exits
//
// The service prints "ready" when the roots exist.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

sealed class Node {
  internal Node Next;
  internal object Body;
  internal long Number;
}

static class Roots {
  static readonly ManualResetEvent Never = new ManualResetEvent(false);
  static readonly object[] Old = new object[4096];
  static readonly ConditionalWeakTable<object, object> Table = new ConditionalWeakTable<object, object>();
  static readonly List<object> Kept = new List<object>();
  static Node[] oldBatches;
  static object[] written;

  static string Text(string name, string otherwise) {
    string text = Environment.GetEnvironmentVariable(name);
    return string.IsNullOrEmpty(text) ? otherwise : text;
  }

  static int Number(string name, int otherwise) { return int.Parse(Text(name, otherwise.ToString())); }

  // Each frame holds six references.
  [MethodImpl(MethodImplOptions.NoInlining)]
  static int Wait(int frames, object a, object b, object c, object d) {
    if (frames == 0) { Never.WaitOne(); return 1; }
    object e = Old[frames % Old.Length], f = Old[frames * 7 % Old.Length];
    int depth = Wait(frames - 1, b, c, d, e);
    GC.KeepAlive(a); GC.KeepAlive(e); GC.KeepAlive(f);
    return depth + (ReferenceEquals(a, f) ? 1 : 0);
  }

  static void Prepare(string roots, int n) {
    for (int i = 0; i < Old.Length; i++) Old[i] = new Node { Number = i };
    if (roots == "stacks") {
      for (int i = 0; i < n; i++) {
        var thread = new Thread(() => Wait(60, Old[1], Old[2], Old[3], Old[4]), 1 << 20) { IsBackground = true };
        thread.Start();
      }
      Thread.Sleep(500);
    }
    if (roots == "handles") for (int i = 0; i < n; i++) GCHandle.Alloc(new Node());
    if (roots == "dependent") for (int i = 0; i < n; i++) { var key = new Node(); Kept.Add(key); Table.Add(key, new Node()); }
    if (roots == "old") written = new object[n];
  }

  // Writes a reference to a young object to each slot in generation 2, so that each young collection scans all of these
  // slots.
  static void WriteOld() {
    if (written == null) return;
    var young = new Node();
    for (int i = 0; i < written.Length; i++) written[i] = young;
  }

  static Node Batch(int count, int bytes) {
    Node head = null;
    for (int i = 0; i < count; i++) head = new Node { Next = head, Body = bytes <= 64 ? null : new byte[bytes], Number = i };
    return head;
  }

  static void Main() {
    string roots = Text("ROOTS", "none"), place = Text("PLACE", "old");
    int bytes = Number("OBJECT", 40), kib = Number("SURVIVE", 2048), mbs = Number("MBS", 50), secs = Number("SECS", 20);
    Prepare(roots, Number("N", 0));
    GC.Collect(); GC.Collect();
    // Generation 0 has 16 MB (tests/accounts/run sets GCgen0size), and a tick is 1 ms. The service creates a batch per
    // tick and keeps the batches of the ticks between two young collections. All kept batches together
    // have SURVIVE KiB.
    long perTick = mbs * 1000L, ticksPerGc = (16L << 20) / perTick;
    int count = (int)Math.Max(1, kib * 1024L / (bytes <= 64 ? 40 : bytes + 64) / ticksPerGc);
    var onStack = new Node[place == "stack" ? (int)ticksPerGc : 0];
    oldBatches = new Node[place == "old" ? (int)ticksPerGc : 0];
    var handles = new Queue<GCHandle>();
    GC.Collect(); GC.Collect();
    Console.WriteLine("ready"); Console.Out.Flush();
    var clock = Stopwatch.StartNew();
    long sum = 0;
    for (long tick = 0; clock.Elapsed.TotalSeconds < secs; tick++) {
      while (clock.Elapsed.TotalMilliseconds < tick) Thread.Sleep(1);
      for (long made = 0; made < perTick; made += 40) sum += new Node { Number = made }.Number;
      var batch = Batch(count, bytes);
      if (place == "old") oldBatches[tick % oldBatches.Length] = batch;
      if (place == "handle") { handles.Enqueue(GCHandle.Alloc(batch)); if (handles.Count > ticksPerGc) handles.Dequeue().Free(); }
      // The array is young, and only this stack refers to the array.
      if (place == "stack") { var next = new Node[onStack.Length]; Array.Copy(onStack, 0, next, 1, next.Length - 1); next[0] = batch; onStack = next; }
      if (tick % 50 == 0) WriteOld();
    }
    Console.WriteLine("done " + sum); GC.KeepAlive(onStack); GC.KeepAlive(handles); GC.KeepAlive(Kept);
  }
}
