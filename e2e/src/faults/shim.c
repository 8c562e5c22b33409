/* Preloaded into a program under test: its wall clock and its disk do what a small shared file says.
 *
 * Everything goes to the kernel by syscall(), so that nothing here depends on when the dynamic linker
 * has found the real functions. Only regular files above standard error are touched: sockets, pipes
 * and the program's log stay as they are. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The order is that of `Knob` in shim.rs. */
struct control {
    volatile int64_t clock_offset_ns, sync_delay_us, write_delay_us, write_errno, sync_errno;
    volatile int64_t writes_hit, syncs_hit, clocks_read;
};

static struct control *control;

__attribute__((constructor)) static void attach(void) {
    const char *path = getenv("FLOTILLA_FAULTS");
    if (!path) return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != MAP_FAILED) control = at;
}

static int is_file(int fd) {
    struct stat info;
    if (fd <= 2 || fstat(fd, &info) != 0) return 0;
    return S_ISREG(info.st_mode);
}

static void wait_us(int64_t us) {
    struct timespec time = {us / 1000000, (us % 1000000) * 1000};
    if (us > 0) syscall(SYS_nanosleep, &time, NULL);
}

/* Nonzero when the call has to fail; errno is set then. */
static int refuses(int fd, int64_t delay, int64_t error, volatile int64_t *hits) {
    if (!control || (!delay && !error) || !is_file(fd)) return 0;
    __sync_fetch_and_add(hits, 1);
    wait_us(delay);
    if (error) errno = (int)error;
    return error != 0;
}

#define WRITE_REFUSED(fd) \
    (control && refuses(fd, control->write_delay_us, control->write_errno, &control->writes_hit))
#define SYNC_REFUSED(fd) (control && refuses(fd, control->sync_delay_us, control->sync_errno, &control->syncs_hit))

ssize_t write(int fd, const void *from, size_t count) {
    return WRITE_REFUSED(fd) ? -1 : syscall(SYS_write, fd, from, count);
}
ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    return WRITE_REFUSED(fd) ? -1 : syscall(SYS_pwrite64, fd, from, count, at);
}
ssize_t pwrite(int fd, const void *from, size_t count, off_t at) { return pwrite64(fd, from, count, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return WRITE_REFUSED(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}
int fallocate64(int fd, int mode, off64_t from, off64_t length) {
    return WRITE_REFUSED(fd) ? -1 : (int)syscall(SYS_fallocate, fd, mode, from, length);
}
int fallocate(int fd, int mode, off_t from, off_t length) { return fallocate64(fd, mode, from, length); }

int fsync(int fd) { return SYNC_REFUSED(fd) ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return SYNC_REFUSED(fd) ? -1 : (int)syscall(SYS_fdatasync, fd); }

static void shift(struct timespec *time) {
    if (!control || !control->clock_offset_ns) return;
    __sync_fetch_and_add(&control->clocks_read, 1);
    int64_t all = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + control->clock_offset_ns;
    time->tv_sec = all / 1000000000;
    time->tv_nsec = all % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(time);
    return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
