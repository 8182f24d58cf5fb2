// A library with a name like that of a framework assembly. The library collects and allocates without the knowledge of
// its caller.
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

        // Fit, which is also a method of the library, calls Trim, so that two frames of the library are on the stack.
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

    // The runtime compiles separate code of this class for a value type of the program.
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
