// A library with a name as the framework's assemblies have: it collects, and allocates, behind its caller's back.
using System;
using System.Runtime.CompilerServices;

namespace Microsoft.Acme.Learning
{
    public static class Trainer
    {
        static byte[] kept;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Fit()
        {
            Trim();
            return GC.CollectionCount(0);
        }

        // Its caller within the library is on the stack, too.
        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Trim()
        {
            GC.Collect(0);
            kept = null;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Score(int size)
        {
            kept = new byte[size];
            return kept.Length;
        }
    }

    // Its code for a value type of the program is compiled for the program alone.
    public static class Pool<T>
    {
        static T[] kept;

        [MethodImpl(MethodImplOptions.NoInlining)]
        public static int Take(int count)
        {
            kept = new T[count];
            return kept.Length;
        }
    }
}
