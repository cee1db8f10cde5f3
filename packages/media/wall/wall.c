/*
 * semblance-wall starts one program behind walls: it may read and write the named paths only, has no network, no
 * other process and no second program, whatever happens inside it. No privilege is needed.
 *
 *   semblance-wall [--run PATH]... [--read PATH]... [--write PATH]... [--cpu SECONDS] [--file MIB] [--space MIB]
 *                  [--data MIB] [--shared] [--now] [--without WALL]... -- PROGRAM [ARGUMENT]...
 *   semblance-wall --probe
 *
 * It waits for a byte on descriptor 3, unless with --now, so that its starter can make ready what ends it. --run allows to read and to
 * start what is below a path, --read to read it, --write also to change it; a path that does not exist is passed
 * over. --space limits the address space, --data the private memory. --shared gives the program an empty file in
 * memory as descriptor 3. The environment is handed on as it is. A wall that cannot be set ends it with status 126,
 * unless --without names it. --probe sets what it can, tries each wall from inside, and prints what stands.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "filter.h"
#include "landlock.h"

#define GATE 3
#define MOST_PATHS 256

enum { CANNOT = 126, NO_GATE = 125, NOT_STARTED = 127 };

static int probing;
/* What --without names, and in a probe what could not be set. */
static int without_files, without_calls, without_programs;

static void fail(const char *what, ...) {
  va_list values;
  va_start(values, what);
  fputs("semblance-wall: ", stderr);
  vfprintf(stderr, what, values);
  fputs("\n", stderr);
  va_end(values);
  _exit(CANNOT);
}

/* Ends the program, or in a probe reports that a wall is missing. */
static void miss(const char *wall, const char *call, int error) {
  if (!probing) fail("%s: %s", call, strerror(error));
  printf("missing %s %s: %s\n", wall, call, strerror(error));
}

static void limit(int resource, rlim_t soft, rlim_t hard) {
  struct rlimit now;
  if (getrlimit(resource, &now) != 0) fail("getrlimit: %s", strerror(errno));
  /* Nobody may raise a hard limit that is lower already. */
  if (hard > now.rlim_max) hard = now.rlim_max;
  if (soft > hard) soft = hard;
  const struct rlimit wanted = {soft, hard};
  if (setrlimit(resource, &wanted) != 0) fail("setrlimit: %s", strerror(errno));
}

/* Drops what root could do, except that it may pass over the owners of files: their paths are walled anyway. */
static void drop_privileges(void) {
  struct { uint32_t version; int pid; } head = {0x20080522, 0};
  struct { uint32_t effective, permitted, inheritable; } sets[2];
  const uint32_t kept = 1u << 1 /* CAP_DAC_OVERRIDE */ | 1u << 2 /* CAP_DAC_READ_SEARCH */;
  if (syscall(SYS_capget, &head, sets) != 0) fail("capget: %s", strerror(errno));
  sets[0].effective &= kept;
  sets[0].permitted &= kept;
  sets[1].effective = sets[1].permitted = 0;
  sets[0].inheritable = sets[1].inheritable = 0;
  if (syscall(SYS_capset, &head, sets) != 0) fail("capset: %s", strerror(errno));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs: %s", strerror(errno));
}

static void close_from(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  struct rlimit open_files = {1024, 1024};
  getrlimit(RLIMIT_NOFILE, &open_files);
  for (unsigned fd = first; fd < open_files.rlim_cur && fd < 1u << 20; fd++) close((int)fd);
}

static int listener_pipe[2];

/* Thread that lets one execve through. The kernel ends it when the new program begins, and with it the only one
 * who could let a second one through: the listener is closed on exec. */
static void *let_one_through(void *unused) {
  int listener;
  (void)unused;
  if (read(listener_pipe[0], &listener, sizeof listener) != sizeof listener) _exit(CANNOT);
  struct seccomp_notif asked;
  memset(&asked, 0, sizeof asked);
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) fail("a program's start: %s", strerror(errno));
  struct seccomp_notif_resp answer = {.id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0) fail("a program's start: %s", strerror(errno));
  for (;;) pause();
}

static void set_filter(void) {
  pthread_t thread;
  pthread_attr_t small;
  if (!without_programs) {
    if (pipe2(listener_pipe, O_CLOEXEC) != 0) fail("pipe: %s", strerror(errno));
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    const int error = pthread_create(&thread, &small, let_one_through, NULL);
    if (error) fail("thread: %s", strerror(error));
    const int listener = install_filter(1);
    if (listener >= 0) {
      if (write(listener_pipe[1], &listener, sizeof listener) != sizeof listener) _exit(CANNOT);
      return;
    }
    /* Something above, such as a container runtime, may have taken the only listener. */
    miss("programs", "seccomp", errno);
    without_programs = 1;
  }
  if (install_filter(0) != 0) {
    const int error = errno;
    miss("network", "seccomp", error);
    miss("processes", "seccomp", error);
  }
}

static int denied(long result) { return result == -1 && (errno == EPERM || errno == EACCES || errno == ENOSYS); }

/* Tries each wall from inside, and prints those that stand. */
static int look_around(pid_t outside) {
  char *const again[] = {"semblance-wall", "--ran", NULL};
  char *const nothing[] = {NULL};
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) puts("stands privileges");
  if (denied(open("/", O_RDONLY | O_DIRECTORY)) && denied(open("/tmp", O_TMPFILE | O_RDWR, 0600)))
    puts("stands files");
  if (denied(socket(AF_INET, SOCK_STREAM, 0)) && denied(socket(AF_INET6, SOCK_DGRAM, 0)) &&
      denied(socket(AF_UNIX, SOCK_STREAM, 0)))
    puts("stands network");
  if (denied(kill(outside, 0)) && denied(syscall(SYS_pidfd_open, outside, 0)) && denied(fork()))
    puts("stands processes");
  fflush(stdout);
  execve("/proc/self/exe", again, nothing);
  const int refused = errno == ENOSYS;
  char self[4096];
  /* Where /proc is not there or walled, the program's own path is. */
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length > 0) {
    self[length] = 0;
    execve(self, again, nothing);
  }
  if (refused && errno == ENOSYS) puts("stands programs");
  fflush(stdout);
  return 0;
}

static const char *own_path(void) {
  static char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) fail("/proc/self/exe: %s", strerror(errno));
  path[length] = 0;
  return path;
}

static long number(const char *text) {
  char *end;
  const long value = text ? strtol(text, &end, 10) : -1;
  if (value < 0 || *end) fail("%s is no number", text ? text : "nothing");
  return value;
}

int main(int argc, char **argv) {
  static struct allowed paths[MOST_PATHS];
  size_t count = 0;
  long cpu = -1, file = -1, space = -1, data = -1;
  int shared = 0, now = 0, i = 1;
  if (argc == 2 && strcmp(argv[1], "--ran") == 0) return 0;
  if (argc == 3 && strcmp(argv[1], "--inside") == 0) return look_around((pid_t)number(argv[2]));
  if (argc == 2 && strcmp(argv[1], "--probe") == 0) probing = 1;
  for (; !probing && i < argc && strcmp(argv[i], "--") != 0; i++) {
    const char *option = argv[i];
    if (strcmp(option, "--shared") == 0 || strcmp(option, "--now") == 0) {
      *(option[2] == 's' ? &shared : &now) = 1;
      continue;
    }
    const char *value = argv[++i];
    if (!value) fail("%s has no value", option);
    const uint64_t rights = strcmp(option, "--run") == 0     ? TO_RUN
                            : strcmp(option, "--read") == 0  ? TO_READ
                            : strcmp(option, "--write") == 0 ? TO_WRITE
                                                             : 0;
    if (rights) {
      if (count == MOST_PATHS) fail("more than %d paths", MOST_PATHS);
      paths[count++] = (struct allowed){value, rights};
    } else if (strcmp(option, "--cpu") == 0) cpu = number(value);
    else if (strcmp(option, "--file") == 0) file = number(value);
    else if (strcmp(option, "--space") == 0) space = number(value);
    else if (strcmp(option, "--data") == 0) data = number(value);
    else if (strcmp(option, "--without") == 0 && strcmp(value, "files") == 0) without_files = 1;
    else if (strcmp(option, "--without") == 0 && strcmp(value, "calls") == 0) without_calls = 1;
    else if (strcmp(option, "--without") == 0 && strcmp(value, "programs") == 0) without_programs = 1;
    else fail("unknown option: %s %s", option, value);
  }
  char outside[16];
  char *inside[] = {"semblance-wall", "--inside", outside, NULL};
  char **program = argv + i + 1;
  if (probing) {
    snprintf(outside, sizeof outside, "%d", getppid());
    program = inside;
    paths[count++] = (struct allowed){own_path(), TO_RUN};
  } else {
    char line;
    if (i >= argc || !argv[i + 1]) fail("no program");
    if (!now && read(GATE, &line, 1) != 1) _exit(NO_GATE);
  }

  limit(RLIMIT_CORE, 0, 0);
  if (cpu >= 0) limit(RLIMIT_CPU, (rlim_t)cpu, (rlim_t)cpu + 10);
  if (file >= 0) limit(RLIMIT_FSIZE, (rlim_t)file << 20, (rlim_t)file << 20);
  if (space >= 0) limit(RLIMIT_AS, (rlim_t)space << 20, (rlim_t)space << 20);
  if (data >= 0) limit(RLIMIT_DATA, (rlim_t)data << 20, (rlim_t)data << 20);
  drop_privileges();
  close_from(GATE);
  if (shared && memfd_create("pixels", 0) != GATE) fail("memfd: %s", strerror(errno));
  if (!without_files) {
    const char *call = restrict_files(paths, count);
    if (call) {
      miss("files", call, errno);
      without_files = 1;
    }
  }
  const char *path = probing ? own_path() : program[0];
  fflush(stdout);
  if (!without_calls) set_filter();
  fflush(stdout);
  execve(path, program, environ);
  fprintf(stderr, "semblance-wall: cannot start %s: %s\n", path, strerror(errno));
  _exit(NOT_STARTED);
}
