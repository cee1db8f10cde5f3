/* Landlock, as far as it is used here, with the numbers of the kernel: headers are often older than it. */
#pragma once
#include <sys/syscall.h>
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum {
  FS_EXECUTE = 1 << 0,
  FS_WRITE_FILE = 1 << 1,
  FS_READ_FILE = 1 << 2,
  FS_READ_DIR = 1 << 3,
  FS_REMOVE_FILE = 1 << 5,
  FS_MAKE_REG = 1 << 8,
  FS_TRUNCATE = 1 << 14,
};

enum {
  TO_READ = FS_READ_FILE | FS_READ_DIR,
  TO_RUN = TO_READ | FS_EXECUTE,
  TO_WRITE = TO_READ | FS_WRITE_FILE | FS_REMOVE_FILE | FS_MAKE_REG | FS_TRUNCATE,
  OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE,
};

struct allowed {
  const char *path;
  uint64_t rights;
};

/* All rights of each version of Landlock, from the first; later ones have no more for files. */
static const uint64_t ALL_RIGHTS[] = {(1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1};

/* Restricts this thread and what it starts. Returns the call that failed, with errno, and NULL otherwise. */
static const char *restrict_files(const struct allowed *paths, size_t count) {
  struct { uint64_t files, ports, scopes; } rules = {0, 0, 0};
  const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  if (version < 1) return "landlock_create_ruleset";
  rules.files = ALL_RIGHTS[version < 5 ? version - 1 : 4];
  if (version >= 4) rules.ports = 3;  /* to bind and to connect TCP */
  if (version >= 6) rules.scopes = 3; /* abstract sockets and signals of others */
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int set = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (set < 0) return "landlock_create_ruleset";
  for (size_t i = 0; i < count; i++) {
    struct { uint64_t rights; int32_t parent; } __attribute__((packed)) rule;
    struct stat about;
    rule.parent = open(paths[i].path, O_PATH | O_CLOEXEC);
    if (rule.parent < 0 && (errno == ENOENT || errno == ENOTDIR)) continue;
    if (rule.parent < 0 || fstat(rule.parent, &about) != 0) return paths[i].path;
    rule.rights = paths[i].rights & rules.files & (S_ISDIR(about.st_mode) ? ~0ull : (uint64_t)OF_FILES);
    if (syscall(SYS_landlock_add_rule, set, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0) != 0)
      return "landlock_add_rule";
    close(rule.parent);
  }
  if (syscall(SYS_landlock_restrict_self, set, 0) != 0) return "landlock_restrict_self";
  close(set);
  return NULL;
}
