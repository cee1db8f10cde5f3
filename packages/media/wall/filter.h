/*
 * The filter of system calls. It names what is refused, not what is allowed: ffmpeg, libvips and Node.js of many
 * distributions run behind it. Calls newer than LAST_CALL, which nobody has looked at here, do not exist for them.
 */
#pragma once
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter knows x86-64 and ARM64"
#endif

/* mseal. On x86-64 this also refuses the calls of x32, whose numbers begin at 2^30. */
#define LAST_CALL 462

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Calls without another use here than to reach what is outside, or parts of the kernel that decoding needs not. */
static const short REFUSED[] = {
    /* network */
    SYS_socket, SYS_socketpair, SYS_bind, SYS_connect, SYS_listen, SYS_accept, SYS_accept4,
    /* other processes */
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_tkill, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_pidfd_open, 424 /* pidfd_send_signal */, 438 /* pidfd_getfd */,
    440 /* process_madvise */, 448 /* process_mrelease */, SYS_setsid, SYS_setpgid, SYS_move_pages,
    SYS_migrate_pages, SYS_execveat,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    /* memory and queues that processes share by a number */
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_semget, SYS_semctl, SYS_semtimedop, SYS_semop, SYS_msgget, SYS_msgctl,
    SYS_msgsnd, SYS_msgrcv, SYS_mq_open, SYS_mq_unlink,
    /* what Landlock does not know of files: owners, rights, times, attributes, news of folders, handles */
    SYS_fchmod, SYS_fchmodat, 452 /* fchmodat2 */, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr,
    SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_utimensat, SYS_truncate,
    SYS_inotify_init1, SYS_inotify_add_watch, SYS_fanotify_init, SYS_fanotify_mark, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_mknodat, SYS_quotactl, 443 /* quotactl_fd */, 457 /* statmount */,
    458 /* listmount */,
#ifdef SYS_chmod
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_inotify_init, SYS_mknod,
#endif
    /* mounts and namespaces */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare, 428 /* open_tree */,
    429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */, 433 /* fspick */,
    442 /* mount_setattr */,
    /* parts of the kernel in which faults were often found */
    425 /* io_uring_setup */, 426 /* io_uring_enter */, 427 /* io_uring_register */, SYS_bpf, SYS_perf_event_open,
    SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl,
    /* the machine and the user */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid,
    SYS_setfsgid, SYS_capset, SYS_personality, SYS_acct, SYS_syslog, SYS_reboot, SYS_swapon, SYS_swapoff,
    SYS_sethostname, SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, 
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
};

#define MOST_INSTRUCTIONS 512
static struct sock_filter program_[MOST_INSTRUCTIONS];
static unsigned short length_;

static void add(unsigned short code, uint8_t yes, uint8_t no, uint32_t value) {
  program_[length_++] = (struct sock_filter){code, yes, no, value};
}
static void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset); }
static void answer(uint32_t action) { add(BPF_RET | BPF_K, 0, 0, action); }
static const uint32_t EPERM_ = SECCOMP_RET_ERRNO | EPERM;
static const uint32_t ENOSYS_ = SECCOMP_RET_ERRNO | ENOSYS;

/* The lower half of an argument; the kernel looks at no more of those that are checked here. */
static size_t argument(int index) { return offsetof(struct seccomp_data, args) + 8 * (size_t)index; }

static void refuse(int call, uint32_t action) {
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)call);
  answer(action);
}

/* Refuses a call unless the argument is one of two values. */
static void only(int call, int index, uint32_t one, uint32_t other) {
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, (uint32_t)call);
  load(argument(index));
  add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, one);
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, other);
  answer(SECCOMP_RET_ALLOW);
  answer(EPERM_);
}

/* Refuses a call if the argument under a mask is this value. */
static void unless(int call, int index, uint32_t mask, uint32_t value) {
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 5, (uint32_t)call);
  load(argument(index));
  add(BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
  add(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
  answer(EPERM_);
  load(offsetof(struct seccomp_data, nr));
}

/*
 * Installs the filter in this thread and what it starts. With `listen` an execve asks the listener, which is
 * returned; when that is closed, there is no execve any more. Returns -1, with errno, when the kernel refuses it.
 */
static int install_filter(int listen) {
  const uint32_t self = (uint32_t)getpid();
  length_ = 0;
  load(offsetof(struct seccomp_data, arch));
  add(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, OWN_ARCH);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(struct seccomp_data, nr));
  add(BPF_JMP | BPF_JGT | BPF_K, 0, 1, LAST_CALL);
  answer(ENOSYS_);
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) refuse(REFUSED[i], EPERM_);
  /* Its flags are in memory, where no filter sees them; libraries then use the older call. */
  refuse(435 /* clone3 */, ENOSYS_);
  refuse(437 /* openat2 */, ENOSYS_);
  /* Threads, but no processes. */
  unless(SYS_clone, 0, 0x10000 /* CLONE_THREAD */, 0);
  only(SYS_kill, 0, self, self);
  only(SYS_tgkill, 0, self, self);
  only(SYS_prlimit64, 0, 0, self);
  only(SYS_setpriority, 1, 0, self);
  only(SYS_sched_setaffinity, 0, 0, self);
  only(SYS_sched_setscheduler, 0, 0, self);
  only(SYS_sched_setparam, 0, 0, self);
  only(SYS_sched_setattr, 0, 0, self);
  only(SYS_ioprio_set, 1, 0, self);
  /* Signals that the kernel sends in the name of a descriptor. */
  unless(SYS_fcntl, 1, ~0u, F_SETOWN);
  unless(SYS_fcntl, 1, ~0u, F_SETOWN_EX);
  unless(SYS_ioctl, 1, ~0u, 0x8901 /* FIOSETOWN */);
  unless(SYS_ioctl, 1, ~0u, 0x8902 /* SIOCSPGRP */);
  unless(SYS_ioctl, 1, ~0u, 0x5412 /* TIOCSTI */);
  /* Landlock before its third version lets a file be emptied that is opened for reading. */
  unless(SYS_openat, 2, O_TRUNC | O_ACCMODE, O_TRUNC);
#ifdef SYS_open
  unless(SYS_open, 1, O_TRUNC | O_ACCMODE, O_TRUNC);
#endif
  if (listen) refuse(SYS_execve, SECCOMP_RET_USER_NOTIF);
  answer(SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {length_, program_};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, listen ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &program);
}
