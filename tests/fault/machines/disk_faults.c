/* Loaded before the C library by LD_PRELOAD: has calls on the files of one folder fail, or take long, as a page shared with a test says.
 *
 * PENSTOCK_DISK is the folder, PENSTOCK_DISK_FAULTS the file of the page (tests/fault/machines/disks.py has its layout), and
 * PENSTOCK_DISK_TOLD a FIFO that gets a byte for each call that was struck. While the page says nothing, each call costs one look at it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct page {
  volatile uint32_t active;
  volatile uint32_t sync_delay_us;
  volatile int32_t sync_errno;
  volatile int32_t write_errno;
  volatile int64_t room; /* bytes that may still be written; negative for any number */
  volatile int64_t struck;
};

static struct page nothing;
static struct page *page = &nothing;
static const char *folder;
static size_t folder_length;
static int told = -1;

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  const char *faults = getenv("PENSTOCK_DISK_FAULTS"), *fifo = getenv("PENSTOCK_DISK_TOLD");
  folder = getenv("PENSTOCK_DISK");
  if (!folder || !faults) return;
  folder_length = strlen(folder);
  int file = open(faults, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (fifo) told = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (mapped != MAP_FAILED) page = mapped;
}

static int ours(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < (ssize_t)folder_length || strncmp(path, folder, folder_length) != 0) return 0;
  return length == (ssize_t)folder_length || path[folder_length] == '/';
}

static void strike(void) {
  static ssize_t (*write_)(int, const void *, size_t);
  if (!write_) write_ = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  __atomic_add_fetch(&page->struck, 1, __ATOMIC_SEQ_CST);
  if (told >= 0) {
    int kept = errno;
    if (write_(told, "x", 1) < 0) {} /* nobody listens, or the pipe is full: the count says it too */
    errno = kept;
  }
}

/* The errno that a write of so many bytes is to fail with; 0 where it is to be made. */
static int refused(int file, size_t bytes) {
  if (!page->active || (!page->write_errno && page->room < 0) || !ours(file)) return 0;
  int code = page->write_errno;
  if (!code && __atomic_sub_fetch(&page->room, (int64_t)bytes, __ATOMIC_SEQ_CST) < 0) {
    __atomic_store_n(&page->room, 0, __ATOMIC_SEQ_CST);
    code = ENOSPC;
  }
  if (code) strike();
  return code;
}

static size_t total(const struct iovec *parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
  return bytes;
}

#define FAIL_WITH(code) do { int code_ = (code); if (code_) { errno = code_; return -1; } } while (0)

ssize_t write(int file, const void *data, size_t size) {
  REAL(write);
  FAIL_WITH(refused(file, size));
  return real(file, data, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev);
  FAIL_WITH(page->active ? refused(file, total(parts, count)) : 0);
  return real(file, parts, count);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
  REAL(pwrite);
  FAIL_WITH(refused(file, size));
  return real(file, data, size, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
  REAL(pwrite64);
  FAIL_WITH(refused(file, size));
  return real(file, data, size, offset);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
  REAL(pwritev);
  FAIL_WITH(page->active ? refused(file, total(parts, count)) : 0);
  return real(file, parts, count, offset);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t offset) {
  REAL(pwritev64);
  FAIL_WITH(page->active ? refused(file, total(parts, count)) : 0);
  return real(file, parts, count, offset);
}

/* These give the errno back, and set none. */
int posix_fallocate(int file, off_t offset, off_t size) {
  REAL(posix_fallocate);
  int code = refused(file, (size_t)size);
  return code ? code : real(file, offset, size);
}

int posix_fallocate64(int file, off64_t offset, off64_t size) {
  REAL(posix_fallocate64);
  int code = refused(file, (size_t)size);
  return code ? code : real(file, offset, size);
}

static int sync_of(int file) {
  if (!page->active || (!page->sync_delay_us && !page->sync_errno) || !ours(file)) return 0;
  uint32_t delay = page->sync_delay_us;
  if (delay) {
    struct timespec left = {delay / 1000000, (long)(delay % 1000000) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
  }
  strike();
  return page->sync_errno;
}

int fsync(int file) {
  REAL(fsync);
  FAIL_WITH(sync_of(file));
  return real(file);
}

int fdatasync(int file) {
  REAL(fdatasync);
  FAIL_WITH(sync_of(file));
  return real(file);
}
