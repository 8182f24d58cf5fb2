// clinic.dll: a web service (ASP.NET Core) that is healthy or faulty in one way, and its own clients.
//
//   CKIND   kind of the service (see Kinds)
//   CRATE   requests per second, default 60
//   CSECS   seconds until the service exits by itself, default 0: the service exits when its standard input ends
//   CWARM   seconds of plain service before the kind starts, default 5
//
// The service prints `ready ADDRESS` when it listens, and `begins KIND TIME` when the kind starts. TIME is CLOCK_MONOTONIC
// in nanoseconds; the harness counts the delay of an alert from this time.
using System;
using System.Buffers;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Runtime;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

static class Clinic
{
    static string kind;
    static volatile bool begun;
    static volatile bool ended;
    static readonly ThreadLocal<Random> random = new ThreadLocal<Random>(() => new Random(Environment.CurrentManagedThreadId));
    static readonly Stopwatch since = Stopwatch.StartNew();

    static double Number(string name, double otherwise)
    {
        var text = Environment.GetEnvironmentVariable(name);
        return text == null ? otherwise : double.Parse(text, CultureInfo.InvariantCulture);
    }

    static int Main(string[] arguments)
    {
        kind = Environment.GetEnvironmentVariable("CKIND") ?? "json";
        var kinds = Kinds();
        Kind service;
        if (!kinds.TryGetValue(kind, out service))
        {
            Console.Error.WriteLine("no kind " + kind + ": " + string.Join(" ", kinds.Keys));
            return 2;
        }
        var builder = WebApplication.CreateSlimBuilder(arguments);
        builder.Logging.SetMinimumLevel(LogLevel.Critical);
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        var app = builder.Build();
        app.Run(new RequestDelegate(context => Answer(context, service)));
        app.Start();
        var address = app.Urls.First();
        Console.WriteLine("ready " + address);
        Console.Out.Flush();

        var clients = new Thread(() => Clients(address).Wait()) { IsBackground = true };
        if (service.Early) Begin(service);
        clients.Start();
        if (!service.Early)
        {
            Thread.Sleep(TimeSpan.FromSeconds(Number("CWARM", 5)));
            Begin(service);
        }
        var seconds = Number("CSECS", 0);
        if (seconds > 0) Thread.Sleep(TimeSpan.FromSeconds(seconds));
        else while (Console.In.Read() >= 0) { }
        ended = true;
        // The process kills itself, because a blocked finalizer or thread of the kind could otherwise delay the exit.
        Process.GetCurrentProcess().Kill();
        return 0;
    }

    static void Begin(Kind service)
    {
        Console.WriteLine("begins " + kind + " " + Stopwatch.GetTimestamp());
        Console.Out.Flush();
        begun = true;
        if (service.Work != null) new Thread(() => service.Work()) { IsBackground = true, Name = kind }.Start();
    }

    static async Task Answer(HttpContext context, Kind service)
    {
        Json(40);
        if (begun && service.Request != null)
        {
            try { service.Request(); }
            catch (OutOfMemoryException) { context.Response.StatusCode = 503; }
        }
        try { await context.Response.WriteAsync("ok"); }
        catch (OutOfMemoryException) { }
    }

    /// Sends requests at a steady rate, at most eight at the same time.
    static async Task Clients(string address)
    {
        var http = new HttpClient();
        var places = new SemaphoreSlim(8);
        var clock = Stopwatch.StartNew();
        for (long asked = 0; !ended;)
        {
            var rate = Number("CRATE", 60) * Factor();
            if (asked > clock.Elapsed.TotalSeconds * rate + 1) { asked = (long)(clock.Elapsed.TotalSeconds * rate); }
            if (asked < clock.Elapsed.TotalSeconds * rate - 50) { asked = (long)(clock.Elapsed.TotalSeconds * rate) - 50; }
            if (asked >= clock.Elapsed.TotalSeconds * rate) { await Task.Delay(5); continue; }
            asked++;
            await places.WaitAsync();
            try { _ = Ask(http, address, places); }
            catch (OutOfMemoryException) { places.Release(); }
        }
    }

    static async Task Ask(HttpClient http, string address, SemaphoreSlim places)
    {
        try { await http.GetStringAsync(address); }
        catch (HttpRequestException) { }
        catch (TaskCanceledException) { }
        catch (OutOfMemoryException) { }
        finally { places.Release(); }
    }

    static double Factor()
    {
        if (kind == "ramp" && begun) return 1 + since.Elapsed.TotalSeconds / 60;
        // The rate changes every 40 s: three steps up, then three steps down.
        if (kind == "steps" && begun) return 1 + 1.5 * (3 - Math.Abs((int)(since.Elapsed.TotalSeconds / 40) % 7 - 3));
        if (kind == "waves" && begun) return ((long)since.Elapsed.TotalSeconds / 20) % 2 == 0 ? 3 : 0.3;
        return 1;
    }

    // Allocates what a request of an ordinary service allocates: strings, lists and a body.
    static object Json(int items)
    {
        var text = new StringBuilder();
        var list = new List<Dictionary<string, object>>();
        for (var item = 0; item < items; item++)
        {
            list.Add(new Dictionary<string, object> { { "id", item }, { "name", "customer-" + item }, { "price", item * 9.99 } });
        }
        foreach (var each in list)
        {
            foreach (var pair in each) text.Append(pair.Key).Append(':').Append(pair.Value).Append(',');
        }
        return Encoding.UTF8.GetBytes(text.ToString());
    }

    // ---- kept objects -------------------------------------------------------------------------------------------

    static readonly ConcurrentQueue<object> kept = new ConcurrentQueue<object>();
    static readonly List<GCHandle> handles = new List<GCHandle>();
    static readonly ConcurrentDictionary<int, byte[]> cache = new ConcurrentDictionary<int, byte[]>();
    static event EventHandler Changed;
    static object old;
    static readonly object gate = new object();

    sealed class Node { public Node Next, Left; public byte[] Data = new byte[40]; }

    static Node[] Live(int megabytes)
    {
        var nodes = new Node[megabytes * 1024 * 1024 / 120];
        var pick = new Random(1);
        for (var each = 0; each < nodes.Length; each++)
        {
            nodes[each] = new Node { Left = each > 0 ? nodes[each - 1] : null, Next = each > 0 ? nodes[pick.Next(each)] : null };
        }
        return nodes;
    }

    sealed class Subscriber { readonly byte[] data = new byte[8000]; public void On(object sender, EventArgs e) { data[0]++; } }

    sealed class Slow { readonly byte[] data = new byte[64]; ~Slow() { Thread.Sleep(5); GC.KeepAlive(data); } }

    sealed class Quick { readonly byte[] data = new byte[200]; ~Quick() { data[0] = 1; } }

    static int stuck;

    sealed class Stuck { ~Stuck() { if (Interlocked.Exchange(ref stuck, 1) == 0) Thread.Sleep(Timeout.Infinite); } }

    [DllImport("libc")] static extern IntPtr malloc(IntPtr size);
    [DllImport("libc")] static extern IntPtr memset(IntPtr at, int value, IntPtr size);

    static void Keep(int bytes)
    {
        for (; bytes > 0; bytes -= 2048) kept.Enqueue(new byte[2000]);
    }

    static void Drop(int most) { object gone; while (kept.Count > most && kept.TryDequeue(out gone)) { } }

    /// Calls `what` `hertz` times per second until the service exits.
    static void Every(double hertz, Action what)
    {
        var clock = Stopwatch.StartNew();
        for (long done = 0; !ended; done++)
        {
            var wait = done / hertz - clock.Elapsed.TotalSeconds;
            if (wait > 0) Thread.Sleep(TimeSpan.FromSeconds(wait));
            try { what(); }
            catch (OutOfMemoryException) { Thread.Sleep(20); }
        }
    }

    static void Allocate(long bytes, int each)
    {
        for (; bytes > 0; bytes -= each) { var piece = new byte[each - 24]; piece[0] = 1; }
    }

    /// Creates and keeps `megabytes` of objects within `seconds`, and creates the same amount of garbage.
    static void Fill(double seconds, int megabytes)
    {
        var clock = Stopwatch.StartNew();
        var rows = new List<Dictionary<string, object>>();
        old = rows;
        // A row has about 500 bytes.
        for (var goal = megabytes * 2000; rows.Count < goal && !ended;)
        {
            while (rows.Count < goal * Math.Min(1, clock.Elapsed.TotalSeconds / seconds))
            {
                rows.Add(new Dictionary<string, object> { { "id", rows.Count }, { "name", "customer-" + rows.Count }, { "notes", new string('x', 60) } });
                Allocate(500, 100);
            }
            Thread.Sleep(5);
        }
    }

    static void Deep(int frames, ManualResetEvent until)
    {
        object a = frames, b = until, c = kind;
        if (frames > 0) Deep(frames - 1, until);
        else until.WaitOne();
        GC.KeepAlive(a); GC.KeepAlive(b); GC.KeepAlive(c);
    }

    sealed class Kind { public Action Request, Work; public bool Early; }

    sealed class KindTable : Dictionary<string, Kind>
    {
        public void Add(string name, Action request = null, Action work = null, bool early = false)
        {
            Add(name, new Kind { Request = request, Work = work, Early = early });
        }
    }

    static Dictionary<string, Kind> Kinds()
    {
        var kinds = new KindTable();
        // ---- healthy --------------------------------------------------------------------------------------------
        kinds.Add("json", () => Json(400));
        kinds.Add("idle");
        kinds.Add("ramp", () => Json(200));
        kinds.Add("waves", () => Json(400));
        // A bounded cache of at most 40,000 entries (60 MB). Its growth slows down, because more and more requests
        // replace an existing entry.
        kinds.Add("cache", () => { cache[random.Value.Next(40000)] = new byte[1500]; });
        // Sessions that live for ten seconds, at a moderate rate.
        kinds.Add("sessions", () => { Keep(20000); Drop(6000); });
        kinds.Add("pool", () => { var buffer = ArrayPool<byte>.Shared.Rent(300000); buffer[0] = 1; Json(50); ArrayPool<byte>.Shared.Return(buffer); });
        // The service loads its data, and is quiet afterwards.
        kinds.Add("startup", null, () => { old = Live(120); }, true);
        // The service requests one collection after the start, as some services do.
        kinds.Add("once", null, () => { Allocate(20000000, 4000); GC.Collect(); });
        // A batch of forty seconds that allocates at two thirds of the speed of a core.
        kinds.Add("batch", null, () => { var clock = Stopwatch.StartNew(); while (clock.Elapsed.TotalSeconds < 40) { for (var each = 0; each < 8; each++) Json(400); Thread.Sleep(3); } });
        kinds.Add("finalized", () => { for (var each = 0; each < 30; each++) new Quick(); });
        kinds.Add("live", () => Json(100), () => { old = Live(250); }, true);
        // The service writes a report of 20 MB into one array every 20 s.
        kinds.Add("reports", null, () => Every(0.05, () => { var report = new byte[20000000]; for (var at = 0; at < report.Length; at += 4096) report[at] = 1; }));
        kinds.Add("reload", null, () => Every(1 / 45.0, () => { old = Live(60); }));
        // The service reads 250 MB of small objects for two minutes, and serves requests during and after this time.
        kinds.Add("warmup", () => Json(100), () => Fill(120, 250), true);
        kinds.Add("steps", () => { Keep(20000); Drop(8000); Json(100); });
        // The service is idle for 60 s, runs a batch of 75 s that keeps 350 MB of results until its end, and is idle
        // again.
        kinds.Add("nightly", null, () => { Thread.Sleep(60000); var clock = Stopwatch.StartNew(); while (clock.Elapsed.TotalSeconds < 75) { Keep(120000); Json(200); Thread.Sleep(25); } Drop(0); });
        // A cache of 250 MB that is full after four minutes, and evicts its oldest entries afterwards.
        kinds.Add("bounded", () => Json(100), () => Every(20, () => { Keep(250000000 / 240 / 20); Drop(250000000 / 2048); }));
        // ---- faulty ---------------------------------------------------------------------------------------------
        kinds.Add("leak", null, () => Every(20, () => Keep(50000)));              // 1 MB/s
        kinds.Add("leakfast", null, () => Every(20, () => Keep(250000)));         // 5 MB/s
        kinds.Add("leakevents", () => { Changed += new Subscriber().On; });
        kinds.Add("leaklarge", null, () => Every(10, () => kept.Enqueue(new byte[300000])));  // 3 MB/s in large objects
        kinds.Add("leakhandles", () => { for (var each = 0; each < 20; each++) handles.Add(GCHandle.Alloc(new object())); });
        kinds.Add("leaknative", null, () => Every(10, () => { for (var each = 0; each < 5; each++) memset(malloc((IntPtr)100000), 1, (IntPtr)100000); }));
        kinds.Add("collect", () => { if (random.Value.Next(6) == 0) GC.Collect(); });         // ten collections per second
        kinds.Add("collectslow", null, () => { old = Live(150); Every(0.3, GC.Collect); });   // a long collection every 3.3 s
        kinds.Add("aggressive", null, () => Every(1, () => GC.Collect(2, (GCCollectionMode)3, true, true)));
        kinds.Add("pressure", null, () => Every(20, () => { GC.AddMemoryPressure(50000000); GC.RemoveMemoryPressure(50000000); }));
        kinds.Add("nogc", null, () => Every(3, () => { if (GC.TryStartNoGCRegion(8000000)) { Allocate(1000000, 4000); GC.EndNoGCRegion(); } }));
        kinds.Add("uploads", () => { var body = new byte[1000000]; for (var at = 0; at < body.Length; at += 4096) body[at] = 1; });
        kinds.Add("concat", () => { var text = ""; for (var each = 0; each < 12; each++) text += new string('x', 60000); });
        kinds.Add("holes", null, LargeHoles);
        kinds.Add("pins", null, Pins);
        kinds.Add("finstuck", () => { new Stuck(); }, () => Every(2, () => Allocate(30000000, 4000)));
        kinds.Add("finslow", () => { for (var each = 0; each < 10; each++) new Slow(); }, () => Every(2, () => Allocate(30000000, 4000)));
        kinds.Add("midlife", () => { Keep(1500000); Drop(60000); });
        kinds.Add("stacks", () => Json(400), () =>
        {
            var until = new ManualResetEvent(false);
            for (var each = 0; each < 150; each++) new Thread(() => Deep(400, until), 4 << 20) { IsBackground = true }.Start();
            Every(400, () => Json(400));
        });
        kinds.Add("longpause", null, () => { old = Live(400); Every(0.5, () => { Allocate(5000000, 4000); GC.Collect(2, GCCollectionMode.Forced, true, true); }); });
        kinds.Add("weak", null, () =>
        {
            var table = new ConditionalWeakTable<object, object>();
            var keys = new List<object>();
            for (var each = 0; each < 500000; each++) { var key = new object(); keys.Add(key); table.Add(key, new object()); }
            old = keys;
            Every(200, () => Json(500));
            GC.KeepAlive(table);
        });
        kinds.Add("lowlatency", () => { Keep(20000); Drop(40000); }, () => { GCSettings.LatencyMode = GCLatencyMode.SustainedLowLatency; GCSettings.LatencyMode = GCLatencyMode.LowLatency; });
        kinds.Add("churn", () => Json(300), () => { for (var each = 0; each < 2; each++) new Thread(() => { while (!ended) Json(500); }) { IsBackground = true }.Start(); });
        // The next two kinds fill the heap to its limit (GCHeapHardLimit) with small objects and with large objects.
        kinds.Add("full", null, () => Every(20, () => Keep(150000)));
        kinds.Add("fulllarge", null, () => Every(20, () => kept.Enqueue(new byte[150000])));
        kinds.Add("nearlimit", () => Json(200), () => { var goal = (long)(GC.GetGCMemoryInfo().TotalAvailableMemoryBytes * 0.86); while (GC.GetTotalMemory(false) < goal) Keep(200000); Every(30, () => Allocate(1000000, 4000)); });
        return kinds;
    }

    // Allocates large objects of growing sizes and keeps every fourth object, so that the dropped objects leave holes
    // between the kept objects.
    static void LargeHoles()
    {
        var stay = new List<byte[]>();
        var size = 200000;
        Every(40, () =>
        {
            var batch = new List<byte[]>();
            for (var each = 0; each < 4; each++) batch.Add(new byte[size]);
            stay.Add(batch[3]);
            size += 1500;
            if (stay.Count > 250) { stay.RemoveRange(0, 125); size = 200000 + random.Value.Next(100000); }
        });
    }

    static void Pins()
    {
        var pinned = new Queue<GCHandle>();
        Every(50, () =>
        {
            for (var each = 0; each < 300; each++)
            {
                Allocate(8000, 1000);
                pinned.Enqueue(GCHandle.Alloc(new byte[1000], GCHandleType.Pinned));
            }
            while (pinned.Count > 8000) pinned.Dequeue().Free();
        });
    }
}
