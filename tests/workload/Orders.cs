// A small web service on ASP.NET Core. tests/advice/changes records it.
//
// SPORT  port on 127.0.0.1
// SSECS  duration, in seconds
//
// Paths: /json?n= (an answer with n orders), /alloc?kb= (small objects that are dropped), /large?kb= (a large array that
// is dropped), /cache?keys= (a cache that replaces its oldest entry), /slow?ms= (an answer after a wait).
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Text;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

static class Orders {
  static readonly ConcurrentDictionary<int, byte[]> cache = new ConcurrentDictionary<int, byte[]>();
  static readonly ConcurrentQueue<int> order = new ConcurrentQueue<int>();
  static readonly Random random = new Random(1);
  static object last;

  static int Number(HttpContext context, string name) {
    return int.Parse(context.Request.Query[name].ToString());
  }

  static async Task<string> Answer(HttpContext context) {
    switch (context.Request.Path.Value) {
      case "/json":
        var text = new StringBuilder("[");
        for (int i = Number(context, "n"); i > 0; i--) text.Append("{\"id\":" + i + ",\"customer\":\"customer-" + i + "\",\"lines\":[{\"sku\":\"sku" + i + "\",\"price\":9.99}]},");
        return text.Append("{}]").ToString();
      case "/alloc":
        for (int left = Number(context, "kb") * 1000; left > 0; left -= 2024) last = new byte[2000];
        return "ok";
      case "/large":
        var large = new byte[Number(context, "kb") * 1000];
        for (int i = 0; i < large.Length; i += 4096) large[i] = 1;
        last = large;
        return "ok";
      case "/cache":
        int key, keys = Number(context, "keys"), size;
        lock (random) {
          key = random.Next(keys);
          size = random.Next(100, 1500);
        }
        if (cache.ContainsKey(key)) return "hit";
        cache[key] = new byte[size];
        order.Enqueue(key);
        int old;
        byte[] dropped;
        while (cache.Count > keys / 2 && order.TryDequeue(out old)) cache.TryRemove(old, out dropped);
        return "miss";
      case "/slow":
        var buffer = new byte[50000];
        await Task.Delay(Number(context, "ms"));
        return "ok" + buffer.Length;
    }
    return null;
  }

  static void Main() {
    var builder = WebApplication.CreateSlimBuilder();
    builder.Logging.ClearProviders();
    builder.WebHost.UseUrls("http://127.0.0.1:" + Environment.GetEnvironmentVariable("SPORT"));
    var app = builder.Build();
    ((IApplicationBuilder)app).Run(async context => {
      string answer = await Answer(context);
      context.Response.StatusCode = answer == null ? 404 : 200;
      byte[] body = Encoding.UTF8.GetBytes(answer ?? "");
      context.Response.ContentLength = body.Length;
      await context.Response.Body.WriteAsync(body, 0, body.Length);
    });
    Task.Run(async () => {
      await Task.Delay(int.Parse(Environment.GetEnvironmentVariable("SSECS")) * 1000);
      await app.StopAsync();
    });
    Console.WriteLine("ready");
    app.Run();
  }
}
