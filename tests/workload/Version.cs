// A second version of a web service, as a startup hook (DOTNET_STARTUP_HOOKS) for an unchanged ASP.NET Core service.
// tests/advice/changes records the services with it.
//
// VKEEP     MB of objects that live as long as the process
// VALLOC    bytes that are allocated and dropped per request
// VCOLLECT  number of requests per GC.Collect, or 0
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;

internal static class StartupHook {
  static byte[][] kept;

  static int Number(string name) {
    string text = Environment.GetEnvironmentVariable(name);
    return string.IsNullOrEmpty(text) ? 0 : int.Parse(text);
  }

  public static void Initialize() {
    kept = new byte[Number("VKEEP") * 1000][];
    for (int i = 0; i < kept.Length; i++) kept[i] = new byte[1000 - 24 - 8];
    DiagnosticListener.AllListeners.Subscribe(new Listeners());
  }

  sealed class Listeners : IObserver<DiagnosticListener> {
    public void OnNext(DiagnosticListener listener) {
      if (listener.Name == "Microsoft.AspNetCore") listener.Subscribe(new Requests(), name => name == "Microsoft.AspNetCore.Hosting.HttpRequestIn" || name == "Microsoft.AspNetCore.Hosting.HttpRequestIn.Start");
    }
    public void OnError(Exception error) { }
    public void OnCompleted() { }
  }

  sealed class Requests : IObserver<KeyValuePair<string, object>> {
    readonly int bytes = Number("VALLOC"), collect = Number("VCOLLECT");
    int count;
    static object last;

    public void OnNext(KeyValuePair<string, object> line) {
      if (!line.Key.EndsWith(".Start", StringComparison.Ordinal)) return;
      for (int left = bytes; left > 0; left -= 2024) last = new byte[2000];
      if (collect > 0 && Interlocked.Increment(ref count) % collect == 0) GC.Collect();
    }
    public void OnError(Exception error) { }
    public void OnCompleted() { }
  }
}
