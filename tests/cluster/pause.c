/* The process that holds a pod's namespaces. With a shared pid namespace, it is process 1 and reaps orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { _exit(128 + number); }

static void bury(int number)
{
    (void)number;
    while (waitpid(-1, 0, WNOHANG) > 0) { }
}

int main(void)
{
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, bury);
    for (;;) pause();
}
