// shapes.dll [SECONDS]: 69 forms of C# methods, each of which makes the runtime collect. The compiler and the runtime
// give most of these methods names that no developer would write. At the end, the program writes a line per call to the
// file KLOG, if set: CLOCK_MONOTONIC before and after the call in ns, site, API, collections. NoInlining marks each
// method that the JIT would otherwise inline, because an inlined method has no frame. The program is compiled by the C#
// compiler of .NET 10, which assigns the numbers of the lambdas, with the assemblies of .NET 8. Sites run one at a
// time. The difference of GC.CollectionCount(0) before and after a call is therefore the number of collections that the
// site caused.
using System; using System.Collections.Generic; using System.Diagnostics; using System.Globalization; using System.IO; using System.Linq;
using System.Reflection; using System.Reflection.Emit; using System.Runtime; using System.Runtime.CompilerServices; using System.Threading; using System.Threading.Tasks;
using Shapes;

var seconds = args.Length > 0 ? double.Parse(args[0], CultureInfo.InvariantCulture) : 20;
Console.WriteLine("ready pid " + Environment.ProcessId + " " + Environment.Version + " server=" + GCSettings.IsServerGC);
var watch = Stopwatch.StartNew(); var captured = args.Length;
while (watch.Elapsed.TotalSeconds < seconds)
{
    Log.Begin(); GC.Collect(); Log.End("Program.Main");
    Log.Site("Program.Main (lambda 5)", [MethodImpl(MethodImplOptions.NoInlining)] () => { GC.Collect(0); Log.Ticks += captured; });
    Log.Site("Program.Main (local function TopLocal)", TopLocal);
    Log.Begin(); await TopAsync(); Log.End("Program.Main (local function TopAsync)");
    Func<Task> asyncLambda = async () => { await Task.Yield(); GC.Collect(0); Log.Ticks += captured; };
    Log.Begin(); await asyncLambda(); Log.End("Program.Main (lambda 6)");
    await Log.Async("Shapes.Worker.RunAsync", () => new Worker(1).RunAsync());
    await Log.Async("Shapes.Worker.ValueAsync", async () => await new Worker(1).ValueAsync("x"));
    await Log.Async("Shapes.Worker.StreamAsync", async () => { await foreach (var _ in new Worker(1).StreamAsync()) { } });
    await Log.Async("Shapes.Worker.Pooled", async () => await new Worker(1).Pooled());
    Log.Site("Shapes.Worker.Numbers", () => { foreach (var _ in new Worker(1).Numbers()) { } });
    Log.Site("Shapes.Worker.Nested (local function Inner)", () => new Worker(1).Nested(3));
    Log.Site("Shapes.Worker.LambdaInLocal (lambda 2)", () => new Worker(1).LambdaInLocal(3));
    Log.Site("Shapes.Worker..ctor", () => { _ = new Worker(true); });
    Log.Site("Shapes.Once<T>..cctor", Once);
    Log.Site("Shapes.Worker.get_Value", () => { _ = new Worker(1).Value; });
    Log.Site("Shapes.Worker.set_Value", () => new Worker(1).Value = 3);
    Log.Site("Shapes.Worker.get_Item", () => { _ = new Worker(1)[3]; });
    Log.Site("Shapes.Worker.add_Changed", () => new Worker(1).Changed += () => { });
    Log.Site("Shapes.Money.op_Addition", () => { _ = new Money(1) + new Money(2); });
    Log.Site("Shapes.Money.op_Implicit", () => { long x = new Money(1); });
    Log.Site("Shapes.Money.op_Equality", () => { _ = new Money(1) == new Money(2); });
    Log.Site("Shapes.Worker.IJob.Run", () => ((IJob)new Worker(1)).Run());
    Log.Site("Shapes.Worker.IHandler<int>.Handle", () => ((IHandler<int>)new Worker(1)).Handle(1));
    Log.Site("Shapes.Worker.IHandler<string>.Handle", () => ((IHandler<string>)new Worker(1)).Handle("x"));
    Log.Site("Shapes.Worker.IHandler<List<Dictionary<string, int>>>.Handle", () => ((IHandler<List<Dictionary<string, int>>>)new Worker(1)).Handle(null));
    Log.Site("Shapes.IJob.Default", () => ((IJob)new Worker(1)).Default());
    Log.Site("Shapes.Calc.Zero", () => Static<Calc>());
    Log.Site("Shapes.Outer<int>.Middle.Deep<long>.Run", () => new Outer<int>.Middle.Deep<long>().Run());
    Log.Site("Shapes.Outer<T>.Middle.Deep<T>.Run", () => new Outer<string>.Middle.Deep<object>().Run());
    Log.Site("Shapes.Worker.Swap", () => Worker.Swap("a"));
    Log.Site("Shapes.Worker.Swap", () => Worker.Swap(1));
    Log.Site("Shapes.Worker.Swap", () => Worker.Swap((1, "x")));
    Log.Site("Shapes.Worker.Local (local function Clean)", () => Worker.Local(1));
    Log.Site("Shapes.Worker.Lambda (lambda)", () => Worker.Lambda("x")());
    Log.Site("Shapes.Point.Distance", () => new Point(1, 2).Distance());
    Log.Site("Shapes.Line.ToString", () => { _ = new Line(1, 2).ToString(); });
    Log.Site("Shapes.Line2.PrintMembers", () => new Line2(1).ToString());
    Log.Site("Helper.Run", () => FileLocal.Run());
    Log.Site("Shapes.Extensions.Trimmed", () => "x".Trimmed());
    Log.Site("Shapes.Extensions.Twice", () => "x".Twice());
    Log.Site("Shapes.Größe.Aufräumen", () => Größe.Aufräumen());
    Log.Site("Shapes.Worker.class", () => Worker.@class());
    Log.Site("Shapes.Worker.InCatch", () => Worker.InCatch());
    Log.Site("Shapes.Worker.InFinally", () => Worker.InFinally());
    Log.Site("Shapes.Worker.InFilter", () => Worker.InFilter());
    Log.Site("Shapes.Worker.Filter", () => Worker.FilterCall());
    Log.Site("Shapes.Worker.OnTimer", () => Worker.Timed());
    Log.Site("Shapes.Worker.Pool (lambda)", () => Worker.Pool());
    Log.Site("Shapes.Worker.Parallel (lambda)", () => Worker.Parallel());
    Log.Site("Shapes.Worker.Multi1", () => Worker.Multi());
    Log.Site("Shapes.Worker.Pointer", () => Worker.ByPointer());
    Log.Site("Shapes.Worker.Deep", () => Worker.Deep(400));
    Log.Site("Shapes.Worker.Mutual1", () => Worker.Mutual1(50));
    Log.Site("Shapes.Worker.OnThread", () => { var t = new Thread(Worker.OnThread) { Name = "cleaner" }; t.Start(); t.Join(); });
    Log.Site("Shapes.Worker.Total", () => Worker.Total(), "GC.GetTotalMemory");
    Log.Site("Shapes.Worker.Aggressive", () => Worker.Aggressive());
    Log.Site("Shapes.Worker.Compacting", () => Worker.Compacting());
    Log.Site("Shapes.Worker.BigNoGC", () => Worker.BigNoGC(), "GC.TryStartNoGCRegion");
    Log.Site("Shapes.Worker.WithDynamic", () => Worker.WithDynamic());
    Log.Site("Shapes.Left.Drop", Left.Drop);
    Log.Site("Shapes.Left.Finalize", Left.Finish);
    Log.Site("Shapes.Left<T>.Drop", Left<string>.Drop);
    Log.Site("Shapes.Left<T>.Finalize", Left<string>.Finish);
    Log.Site("Handler.Of.Order (dynamic method)", Dynamic.Dotted);
    Log.Site("Made.Type.Run", Dynamic.Built);
    Log.Site("Shapes.Handle.ReleaseHandle", () => { using (new Handle()) { } });
    Log.Site("Shapes.Handle2.Dispose", () => { using (new Handle2()) { } });
    Log.Site("Shapes.Query.Where (lambda)", () => Query.Where());
    Log.Site("Shapes.Query.Lazy (lambda)", () => Query.Lazy());
    await Task.Delay(5);
}
Log.Write();
return;

[MethodImpl(MethodImplOptions.NoInlining)] static void TopLocal() { GC.Collect(0); Log.Ticks++; }
[MethodImpl(MethodImplOptions.NoInlining)] async Task TopAsync() { await Task.Yield(); GC.Collect(0); Log.Ticks += captured; }
static void Once() { switch (Log.Rounds++) { case 20: Once<string>.Touch(); break; case 40: Once<object>.Touch(); break; case 60: Once<Worker>.Touch(); break; } }
static void Static<T>() where T : IZero { T.Zero(); }

static class Log
{
    public static long Ticks; public static int Rounds;
    static long begin; static int before;
    static readonly List<(long T0, long T1, string Site, string Api, int Collections)> lines = new(1_000_000);
    public static void Begin() { begin = Stopwatch.GetTimestamp(); before = GC.CollectionCount(0); }
    public static void End(string site, string api = "GC.Collect") { var n = GC.CollectionCount(0) - before; lines.Add((begin, Stopwatch.GetTimestamp(), site, api, n)); }
    [MethodImpl(MethodImplOptions.NoInlining)] public static void Site(string site, Action work, string api = "GC.Collect") { Begin(); work(); End(site, api); }
    public static async Task Async(string site, Func<Task> work) { Begin(); await work(); End(site); }
    public static void Write() { if (Environment.GetEnvironmentVariable("KLOG") is { } file) File.WriteAllLines(file, lines.Select(e => $"{e.T0} {e.T1} {e.Site.Replace(' ', '_')} {e.Api} {e.Collections}")); }
}

file static class Helper { [MethodImpl(MethodImplOptions.NoInlining)] public static void Run() { GC.Collect(0); Log.Ticks++; } }
static class FileLocal { public static void Run() => Helper.Run(); }

namespace Shapes
{
    interface IJob { void Run(); [MethodImpl(MethodImplOptions.NoInlining)] void Default() { GC.Collect(0); Worker.Note(); } }
    interface IHandler<T> { void Handle(T item); }
    interface IZero { static abstract void Zero(); }
    struct Calc : IZero { [MethodImpl(MethodImplOptions.NoInlining)] public static void Zero() { GC.Collect(0); Worker.Note(); } }
    static class Once<T> { static readonly int made = Make(); static Once() { GC.Collect(0); Worker.Note(); } static int Make() => 1; [MethodImpl(MethodImplOptions.NoInlining)] public static void Touch() { if (made != 1) Worker.Note(); } }
    readonly struct Money
    {
        readonly long cents; public Money(long c) => cents = c;
        [MethodImpl(MethodImplOptions.NoInlining)] public static Money operator +(Money a, Money b) { GC.Collect(0); Worker.Note(); return new(a.cents + b.cents); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static implicit operator long(Money a) { GC.Collect(0); Worker.Note(); return a.cents; }
        [MethodImpl(MethodImplOptions.NoInlining)] public static bool operator ==(Money a, Money b) { GC.Collect(0); Worker.Note(); return a.cents == b.cents; }
        public static bool operator !=(Money a, Money b) => !(a == b);
        public override bool Equals(object o) => o is Money m && m.cents == cents; public override int GetHashCode() => (int)cents;
    }
    record Point(int X, int Y) { [MethodImpl(MethodImplOptions.NoInlining)] public double Distance() { GC.Collect(0); Worker.Note(); return X; } }
    record struct Line(int A, int B) { [MethodImpl(MethodImplOptions.NoInlining)] public override string ToString() { GC.Collect(0); Worker.Note(); return ""; } }
    record Line2(int A) { [MethodImpl(MethodImplOptions.NoInlining)] protected virtual bool PrintMembers(System.Text.StringBuilder b) { GC.Collect(0); Worker.Note(); return false; } }
    static class Extensions { [MethodImpl(MethodImplOptions.NoInlining)] public static void Trimmed(this string s) { GC.Collect(0); Worker.Note(); }
        extension(string s) { [MethodImpl(MethodImplOptions.NoInlining)] public void Twice() { GC.Collect(0); Worker.Note(); } } }
    static class Größe { [MethodImpl(MethodImplOptions.NoInlining)] public static void Aufräumen() { GC.Collect(0); Worker.Note(); } }
    class Outer<T> { public class Middle { public class Deep<U> { [MethodImpl(MethodImplOptions.NoInlining)] public void Run() { GC.Collect(0); Worker.Note(); } } } }
    sealed class Worker : IJob, IHandler<int>, IHandler<string>, IHandler<List<Dictionary<string, int>>>
    {
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Note() => Log.Ticks++;
        public Worker(int n) { }
        [MethodImpl(MethodImplOptions.NoInlining)] public Worker(bool b) { GC.Collect(0); Note(); }
        public async Task RunAsync() { await Task.Yield(); GC.Collect(0); Note(); }
        public async ValueTask<T> ValueAsync<T>(T x) { await Task.Yield(); GC.Collect(0); Note(); return x; }
        [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))] public async ValueTask Pooled() { await Task.Yield(); GC.Collect(0); Note(); }
        public async IAsyncEnumerable<int> StreamAsync() { await Task.Yield(); GC.Collect(0); Note(); yield return 1; await Task.Yield(); }
        public IEnumerable<int> Numbers() { yield return 1; GC.Collect(0); Note(); yield return 2; }
        [MethodImpl(MethodImplOptions.NoInlining)] public void Nested(int n) { Outer(n); [MethodImpl(MethodImplOptions.NoInlining)] void Outer(int k) { Inner(); [MethodImpl(MethodImplOptions.NoInlining)] void Inner() { GC.Collect(0); Log.Ticks += k + n; } } }
        [MethodImpl(MethodImplOptions.NoInlining)] public void LambdaInLocal(int n) { Outer(n); void Outer(int k) { Action a = [MethodImpl(MethodImplOptions.NoInlining)] () => { GC.Collect(0); Log.Ticks += k; }; a(); } }
        int value; public int Value { [MethodImpl(MethodImplOptions.NoInlining)] get { GC.Collect(0); Note(); return value; } [MethodImpl(MethodImplOptions.NoInlining)] set { GC.Collect(0); Note(); this.value = value; } }
        public int this[int i] { [MethodImpl(MethodImplOptions.NoInlining)] get { GC.Collect(0); Note(); return i; } }
        public event Action Changed { [MethodImpl(MethodImplOptions.NoInlining)] add { GC.Collect(0); Note(); } remove { } }
        [MethodImpl(MethodImplOptions.NoInlining)] void IJob.Run() { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] void IHandler<int>.Handle(int i) { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] void IHandler<string>.Handle(string i) { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] void IHandler<List<Dictionary<string, int>>>.Handle(List<Dictionary<string, int>> i) { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Swap<T>(T a) { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Local<T>(T a) { Clean(a); [MethodImpl(MethodImplOptions.NoInlining)] static void Clean(T b) { GC.Collect(0); Note(); } }
        [MethodImpl(MethodImplOptions.NoInlining)] public static Action Lambda<T>(T a) => [MethodImpl(MethodImplOptions.NoInlining)] () => { GC.Collect(0); Note(); if (a == null) Note(); };
        [MethodImpl(MethodImplOptions.NoInlining)] public static void @class() { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void InCatch() { try { throw new InvalidOperationException(); } catch (InvalidOperationException) { GC.Collect(0); Note(); } }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void InFinally() { try { Note(); } finally { GC.Collect(0); Note(); } }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void InFilter() { try { try { throw new InvalidOperationException(); } finally { GC.Collect(0); Note(); } } catch { } }
        [MethodImpl(MethodImplOptions.NoInlining)] static bool Filter() { GC.Collect(0); Note(); return true; }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void FilterCall() { try { throw new InvalidOperationException(); } catch (Exception) when (Filter()) { } }
        static readonly ManualResetEventSlim timed = new();
        [MethodImpl(MethodImplOptions.NoInlining)] static void OnTimer(object o) { GC.Collect(0); Note(); timed.Set(); }
        public static void Timed() { timed.Reset(); using var t = new Timer(OnTimer, null, 1, Timeout.Infinite); timed.Wait(); }
        public static void Pool() { using var done = new ManualResetEventSlim(); ThreadPool.QueueUserWorkItem([MethodImpl(MethodImplOptions.NoInlining)] (_) => { GC.Collect(0); done.Set(); }); done.Wait(); }
        public static void Parallel() { System.Threading.Tasks.Parallel.For(0, 3, [MethodImpl(MethodImplOptions.NoInlining)] (i) => { GC.Collect(0); Note(); }); }
        [MethodImpl(MethodImplOptions.NoInlining)] static void Multi1() { GC.Collect(0); Note(); }
        public static void Multi() { Action a = Note; a += Multi1; a += Note; a(); }
        [MethodImpl(MethodImplOptions.NoInlining)] static void Pointer() { GC.Collect(0); Note(); }
        public static unsafe void ByPointer() { delegate*<void> p = &Pointer; p(); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static int Deep(int n) { if (n == 0) { GC.Collect(0); Note(); return 0; } return Deep(n - 1) + 1; }
        [MethodImpl(MethodImplOptions.NoInlining)] public static int Mutual1(int n) { if (n <= 0) { GC.Collect(0); Note(); return 0; } return Mutual2(n - 1) + 1; }
        [MethodImpl(MethodImplOptions.NoInlining)] public static int Mutual2(int n) { if (n <= 0) { GC.Collect(0); Note(); return 0; } return Mutual1(n - 1) + 1; }
        public static void OnThread() { GC.Collect(0); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Total() { GC.GetTotalMemory(true); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Aggressive() { GC.Collect(2, GCCollectionMode.Aggressive, true, true); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Compacting() { GC.Collect(2, GCCollectionMode.Forced, true, true); Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void BigNoGC() { try { GC.TryStartNoGCRegion(100 << 20); } catch (Exception) { } try { GC.EndNoGCRegion(); } catch (InvalidOperationException) { } Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] public static void WithDynamic() { Func<int> f = () => 1; typeof(GC).GetMethod("Collect", new[] { typeof(int) }).Invoke(null, new object[] { 0 }); Note(); }
    }
    sealed class Left
    {
        // The finalizer collects on the finalizer thread. It waits for the gate, which Finish opens after the
        // collection of Drop, so that each collection counts for its own site.
        static readonly ManualResetEventSlim gate = new();
        ~Left() { gate.Wait(); GC.Collect(0, GCCollectionMode.Forced, true); Worker.Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] static void Make() => new Left();
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Drop() { gate.Reset(); Make(); GC.Collect(0); Worker.Note(); }
        public static void Finish() { gate.Set(); GC.WaitForPendingFinalizers(); }
    }
    sealed class Left<T>
    {
        // The finalizer collects on the finalizer thread. It waits for the gate, which Finish opens after the
        // collection of Drop, so that each collection counts for its own site.
        static readonly ManualResetEventSlim gate = new();
        ~Left() { gate.Wait(); GC.Collect(0, GCCollectionMode.Forced, true); Worker.Note(); }
        [MethodImpl(MethodImplOptions.NoInlining)] static void Make() => new Left<T>();
        [MethodImpl(MethodImplOptions.NoInlining)] public static void Drop() { gate.Reset(); Make(); GC.Collect(0); Worker.Note(); }
        public static void Finish() { gate.Set(); GC.WaitForPendingFinalizers(); }
    }
    static class Dynamic
    {
        static readonly MethodInfo collect = typeof(GC).GetMethod("Collect", Type.EmptyTypes), note = typeof(Worker).GetMethod("Note");
        
        public static readonly Action Dotted = Make("Handler.Of.Order");
        public static Action Make(string name) { var m = new DynamicMethod(name, null, null, typeof(Worker).Module); var il = m.GetILGenerator(); il.Emit(OpCodes.Call, collect); il.Emit(OpCodes.Call, note); il.Emit(OpCodes.Ret); return m.CreateDelegate<Action>(); }
        public static readonly Action Built = MakeType();
        static Action MakeType() { var a = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("Made"), AssemblyBuilderAccess.Run); var t = a.DefineDynamicModule("Made").DefineType("Made.Type", TypeAttributes.Public); var m = t.DefineMethod("Run", MethodAttributes.Public | MethodAttributes.Static); var il = m.GetILGenerator(); il.Emit(OpCodes.Call, collect); il.Emit(OpCodes.Ldc_I4_0); il.Emit(OpCodes.Pop); il.Emit(OpCodes.Ret); return (Action)t.CreateType().GetMethod("Run").CreateDelegate(typeof(Action)); }
    }
    sealed class Handle : System.Runtime.InteropServices.SafeHandle { public Handle() : base((IntPtr)1, true) { } public override bool IsInvalid => false; [MethodImpl(MethodImplOptions.NoInlining)] protected override bool ReleaseHandle() { GC.Collect(0); Worker.Note(); return true; } }
    sealed class Handle2 : IDisposable { [MethodImpl(MethodImplOptions.NoInlining)] public void Dispose() { GC.Collect(0); Worker.Note(); } }
    static class Query
    {
        public static void Where() { _ = Enumerable.Range(0, 2).Where([MethodImpl(MethodImplOptions.NoInlining)] (x) => { GC.Collect(0); Worker.Note(); return x > 0; }).ToList(); }
        public static void Lazy() { _ = new Lazy<int>([MethodImpl(MethodImplOptions.NoInlining)] () => { GC.Collect(0); Worker.Note(); return 1; }).Value; }
    }
}
