// jobs.dll: a hosted worker that DOTNET_STARTUP_HOOKS adds to a web service. It runs at most 50 jobs per second. Each
// job is an activity of the source Acme.Jobs and requests one collection of generation 0.
using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.Hosting;

internal class StartupHook
{
    public static void Initialize() => new Acme.Jobs().StartAsync(CancellationToken.None);
}

namespace Acme
{
    internal sealed class Jobs : BackgroundService
    {
        private static readonly ActivitySource Source = new ActivitySource("Acme.Jobs");

        protected override async Task ExecuteAsync(CancellationToken stopping)
        {
            while (!stopping.IsCancellationRequested)
            {
                using (Source.StartActivity("job", ActivityKind.Consumer))
                {
                    GC.Collect(0);
                    await Task.Delay(20, stopping);
                }
            }
        }
    }
}
