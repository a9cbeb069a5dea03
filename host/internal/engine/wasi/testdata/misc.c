/* misc.c: arguments, environment, clocks, random, stdio, poll, sockets. */
#include "raw.h"

static void args_environ(void) {
  u32 n, b; char *p[8]; char buf[256];
  OK(args_sizes_get(&n, &b)); CHECK(n == 5 && b == len("misc") + len("args_environ") + len("first") + len("the \"2nd\"") + 5);
  OK(args_get(p, buf));
  CHECK(p[0] == buf && eq(p[2], "first", 6) && eq(p[3], "the \"2nd\"", 10) && eq(p[4], "", 1));
  OK(environ_sizes_get(&n, &b)); CHECK(n == 2 && b == 4 + 9);
  OK(environ_get(p, buf)); CHECK(eq(p[0], "a=b", 4) && eq(p[1], "c d=\xc3\xa9 f", 8));
}

static void clocks(void) {
  for (u32 id = 0; id < 2; id++) {
    u64 res, a, b;
    OK(clock_res_get(id, &res)); CHECK(res == 1000000);
    OK(clock_time_get(id, 1, &a)); OK(clock_time_get(id, 0, &b));
    CHECK(a > 0 && b >= a && a % res == 0);
  }
  WANT(clock_res_get(9, &(u64){0}), INVAL); WANT(clock_time_get(9, 0, &(u64){0}), INVAL);
}

static u8 buf[1 << 20];

static void random_(void) {
  OK(random_get(buf, 0));
  OK(random_get(buf, sizeof buf));
  u32 zeros = 0;
  for (u32 i = 0; i < sizeof buf; i++) zeros += buf[i] == 0;
  CHECK(zeros > 2000 && zeros < 8000);
}

static void stdio(void) {
  fdstat st; filestat fs; u64 pos; iov v = {buf, 4}; u32 n;
  for (u32 fd = 0; fd < 3; fd++) {
    OK(fd_fdstat_get(fd, &st)); CHECK(st.type == T_UNKNOWN && !(st.base & (R_SEEK | R_TELL)));
    OK(fd_filestat_get(fd, &fs));
    WANT(fd_seek(fd, 0, 0, &pos), SPIPE); WANT(fd_tell(fd, &pos), SPIPE);
    WANT(fd_pread(fd, &v, 1, 0, &n), SPIPE, BADF); WANT(fd_pwrite(fd, &v, 1, 0, &n), SPIPE, BADF);
    WANT(fd_advise(fd, 0, 0, 0), SPIPE, BADF);
    WANT(fd_readdir(fd, buf, 10, 0, &n), NOTDIR);
    OK(fd_fdstat_set_flags(fd, NONBLOCK));
  }
  OK(fd_sync(1)); OK(fd_datasync(2));
  char b[16];
  CHECK(rd(0, b, 3) == 3 && eq(b, "inp", 3)); CHECK(rd(0, b, 16) == 2 && eq(b, "ut", 2)); CHECK(rd(0, b, 16) == 0);
  CHECK(rd(1, b, 1) == -BADF); CHECK(wr(0, b, 1) == -BADF);
  CHECK(wr(2, "err", 3) == 3); CHECK(wr(-31337, "x", 1) == -BADF);
  OK(fd_close(2)); CHECK(wr(2, "x", 1) == -BADF);
}

typedef struct { u64 userdata; u8 tag; u8 pad[7]; u64 a, timeout, precision; u16 flags; } sub;
typedef struct { u64 userdata; u16 error; u8 type; u64 nbytes; u16 flags; } event;

static void poll(void) {
  event ev[4]; u32 n; u64 t0, t1;
  sub s[4] = {{.userdata = 1, .tag = 0, .a = 1, .timeout = 20000000}};
  OK(clock_time_get(1, 0, &t0)); OK(poll_oneoff(s, ev, 1, &n)); OK(clock_time_get(1, 0, &t1));
  CHECK(n == 1 && ev[0].userdata == 1 && ev[0].error == 0 && ev[0].type == 0 && t1 - t0 >= 19000000);
  s[0].flags = 1; s[0].timeout = t1 + 10000000;
  OK(poll_oneoff(s, ev, 1, &n)); CHECK(n == 1); OK(clock_time_get(1, 0, &t0)); CHECK(t0 >= t1 + 10000000);
  OK(poll_oneoff(s, ev, 1, &n)); CHECK(n == 1); /* past */
  s[0] = (sub){.userdata = 9, .tag = 0, .a = 0, .timeout = 3600ull * 1000000000};
  s[1] = (sub){.userdata = 2, .tag = 1, .a = 0};
  s[2] = (sub){.userdata = 3, .tag = 2, .a = 1};
  s[3] = (sub){.userdata = 4, .tag = 2, .a = 77};
  OK(poll_oneoff(s, ev, 4, &n)); CHECK(n == 3);
  CHECK(ev[0].userdata == 2 && ev[0].type == 1 && ev[0].error == 0 && ev[0].nbytes == 5);
  CHECK(ev[1].userdata == 3 && ev[1].type == 2 && ev[1].error == 0 && ev[2].userdata == 4 && ev[2].error == BADF);
  s[0].timeout = 0;
  OK(poll_oneoff(s, ev, 4, &n)); CHECK(n == 4 && ev[3].userdata == 9);
  u32 f = OPEN(3, 0, "f", CREAT, R_RW, 0, 0);
  CHECK(wr(f, "hello", 5) == 5); OK(fd_seek(f, 2, 0, &t0));
  s[0] = (sub){.userdata = 5, .tag = 1, .a = f};
  OK(poll_oneoff(s, ev, 1, &n)); CHECK(n == 1 && ev[0].nbytes == 3 && ev[0].error == 0);
  s[0].a = 1;
  OK(poll_oneoff(s, ev, 1, &n)); CHECK(n == 1 && ev[0].error == NOTCAPABLE);
  s[0] = (sub){.tag = 0, .a = 9};
  OK(poll_oneoff(s, ev, 1, &n)); CHECK(n == 1 && ev[0].error == INVAL);
  s[0].tag = 5;
  WANT(poll_oneoff(s, ev, 1, &n), INVAL); WANT(poll_oneoff(s, ev, 0, &n), INVAL);
}

static void rest(void) {
  for (u32 i = 0; i < 10; i++) OK(sched_yield());
  WANT(proc_raise(6), NOSYS);
  u32 n;
  for (u32 fd = 0; fd < 4; fd++) {
    WANT(sock_accept(fd, 0, &n), NOTSOCK); WANT(sock_recv(fd, buf, 0, 0, &n, &n), NOTSOCK);
    WANT(sock_send(fd, buf, 0, 0, &n), NOTSOCK); WANT(sock_shutdown(fd, 1), NOTSOCK);
  }
  WANT(sock_shutdown(4, 1), BADF);
}

static void exit_(void) { proc_exit(33); }

static const struct test tests[] = {
  {"args_environ", args_environ}, {"clocks", clocks}, {"random", random_}, {"stdio", stdio}, {"poll", poll},
  {"rest", rest}, {"exit", exit_},
};
MAIN(tests)
