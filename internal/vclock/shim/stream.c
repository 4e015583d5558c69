/* The C library's streams read and write inside the C library, where no other wrapper of this
 * library sees them. */
#define _GNU_SOURCE
#include "shim.h"

REAL(size_t, fread, void *, size_t, size_t, FILE *)
REAL(size_t, fread_unlocked, void *, size_t, size_t, FILE *)
REAL(char *, fgets, char *, int, FILE *)
REAL(char *, fgets_unlocked, char *, int, FILE *)
REAL(int, fgetc, FILE *)
REAL(ssize_t, getdelim, char **, size_t *, int, FILE *)
REAL(int, __uflow, FILE *)
REAL(int, __underflow, FILE *)
REAL(size_t, fwrite, const void *, size_t, size_t, FILE *)
REAL(size_t, fwrite_unlocked, const void *, size_t, size_t, FILE *)
REAL(int, fputs, const char *, FILE *)
REAL(int, fputs_unlocked, const char *, FILE *)
REAL(int, puts, const char *)
REAL(int, fputc, int, FILE *)
REAL(int, __overflow, FILE *, int)
REAL(int, vfprintf, FILE *, const char *, va_list)
REAL(int, __vfprintf_chk, FILE *, int, const char *, va_list)
REAL(int, fflush, FILE *)
REAL(int, fflush_unlocked, FILE *)
REAL(int, fclose, FILE *)

/* The library reads a stream's descriptor and the fill of its buffers at their places in glibc's
 * struct. */
bool knows_streams(void)
{
	char text[] = "abc";
	FILE *f = fmemopen(text, 3, "r");
	if (!f)
		return false;
	bool known = real(fgetc)(f) == 'a' && f->_IO_read_end - f->_IO_read_ptr == 2 && *f->_IO_read_ptr == 'b';
	real(fclose)(f);
	return known && stdin->_fileno == fileno(stdin) && stdout->_fileno == fileno(stdout);
}

static bool is_channel(int fd)
{
	struct stat st;
	int saved = errno;
	bool is = fd >= 0 && status_of(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	errno = saved;
	return is;
}

/* wait_to_fill returns how an input call would wait that needs `want` bytes or, with a delimiter,
 * the bytes up to the delimiter. */
static enum wait wait_to_fill(FILE *f, size_t want, int delimiter)
{
	size_t have = (size_t)(f->_IO_read_end - f->_IO_read_ptr);
	if (!counted() || have >= want ||
	    (delimiter >= 0 && have && memchr(f->_IO_read_ptr, delimiter, have)) ||
	    !is_channel(f->_fileno))
		return NO_WAIT;
	return outside(f->_fileno) ? OUTSIDE_WAIT : MANAGED_WAIT;
}

#define STREAM_INPUT(f, want, delimiter, call) \
	WAITING_CALL(wait_to_fill(f, want, delimiter), RMR_WHY_STREAM, (f)->_fileno, call)
#define NO_DELIMITER (-1)

EXPORT size_t fread(void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_INPUT(f, size * n, NO_DELIMITER, real(fread)(p, size, n, f));
}

EXPORT size_t(fread_unlocked)(void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_INPUT(f, size * n, NO_DELIMITER, real(fread_unlocked)(p, size, n, f));
}

EXPORT size_t __fread_chk(void *p, size_t len, size_t size, size_t n, FILE *f)
{
	(void)len;
	return fread(p, size, n, f);
}

EXPORT char *fgets(char *s, int n, FILE *f)
{
	return STREAM_INPUT(f, (size_t)n, '\n', real(fgets)(s, n, f));
}

EXPORT char *fgets_unlocked(char *s, int n, FILE *f)
{
	return STREAM_INPUT(f, (size_t)n, '\n', real(fgets_unlocked)(s, n, f));
}

EXPORT char *__fgets_chk(char *s, size_t len, int n, FILE *f)
{
	(void)len;
	return fgets(s, n, f);
}

EXPORT ssize_t getdelim(char **line, size_t *n, int delimiter, FILE *f)
{
	return STREAM_INPUT(f, SIZE_MAX, delimiter, real(getdelim)(line, n, delimiter, f));
}

EXPORT ssize_t __getdelim(char **line, size_t *n, int delimiter, FILE *f)
{
	return getdelim(line, n, delimiter, f);
}

EXPORT ssize_t getline(char **line, size_t *n, FILE *f)
{
	return getdelim(line, n, '\n', f);
}

EXPORT int fgetc(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(fgetc)(f));
}

EXPORT int(getc)(FILE *f)
{
	return fgetc(f);
}

EXPORT int getchar(void)
{
	return fgetc(stdin);
}

/* The macros of getc_unlocked call it when the buffer is empty. */
EXPORT int __uflow(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(__uflow)(f));
}

EXPORT int __underflow(FILE *f)
{
	return STREAM_INPUT(f, 1, NO_DELIMITER, real(__underflow)(f));
}

static enum reader reader_of_stream(FILE *f)
{
	enum reader r = C && f && f->_fileno >= 0 ? reader_of(f->_fileno) : NO_READER;
	if (r != NO_READER)
		touch();
	return r;
}

/* tell_driver counts the bytes that a stream has sent to the driver. Their number is known only
 * after the call. Until then this thread runs, so the clock stands still. */
static void tell_driver(int64_t bytes)
{
	atomic_fetch_add(&C->inbox, bytes);
}

/* STREAM_OUTPUT makes a call that writes at most `most` bytes into f. `produced` is the number of
 * bytes that the call actually wrote; the expression may use the call's result, r_. */
#define STREAM_OUTPUT(f, most, produced, call) \
	({ \
		FILE *to_ = (f); \
		enum reader reader_ = reader_of_stream(to_); \
		size_t pending_ = reader_ == DRIVER ? __fpending(to_) : 0; \
		enum wait to_write_ = \
			reader_ == OTHER_READER ? wait_to_write(to_->_fileno, most, 0) : NO_WAIT; \
		__typeof__(call) r_ = WAITING_CALL(to_write_, RMR_WHY_WRITE, to_->_fileno, call); \
		if (reader_ == DRIVER) \
			tell_driver((int64_t)pending_ + (int64_t)(produced) - (int64_t)__fpending(to_)); \
		r_; \
	})

EXPORT size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_OUTPUT(f, size * n, size * r_, real(fwrite)(p, size, n, f));
}

EXPORT size_t(fwrite_unlocked)(const void *p, size_t size, size_t n, FILE *f)
{
	return STREAM_OUTPUT(f, size * n, size * r_, real(fwrite_unlocked)(p, size, n, f));
}

EXPORT int fputs(const char *s, FILE *f)
{
	return STREAM_OUTPUT(f, strlen(s), r_ < 0 ? 0 : strlen(s), real(fputs)(s, f));
}

EXPORT int fputs_unlocked(const char *s, FILE *f)
{
	return STREAM_OUTPUT(f, strlen(s), r_ < 0 ? 0 : strlen(s), real(fputs_unlocked)(s, f));
}

EXPORT int puts(const char *s)
{
	return STREAM_OUTPUT(stdout, strlen(s) + 1, r_ < 0 ? 0 : strlen(s) + 1, real(puts)(s));
}

EXPORT int fputc(int c, FILE *f)
{
	return STREAM_OUTPUT(f, 1, r_ != EOF, real(fputc)(c, f));
}

EXPORT int(putc)(int c, FILE *f)
{
	return fputc(c, f);
}

EXPORT int putchar(int c)
{
	return fputc(c, stdout);
}

/* The macros of putc_unlocked call it when the buffer is full. */
EXPORT int __overflow(FILE *f, int c)
{
	return STREAM_OUTPUT(f, 1, c != EOF && r_ != EOF, real(__overflow)(f, c));
}

EXPORT int vfprintf(FILE *f, const char *format, va_list ap)
{
	return STREAM_OUTPUT(f, 1, r_ < 0 ? 0 : r_, real(vfprintf)(f, format, ap));
}

EXPORT int __vfprintf_chk(FILE *f, int flag, const char *format, va_list ap)
{
	return STREAM_OUTPUT(f, 1, r_ < 0 ? 0 : r_, real(__vfprintf_chk)(f, flag, format, ap));
}

#define FORWARD_ARGS(last, call) \
	({ \
		va_list ap; \
		va_start(ap, last); \
		int forwarded_ = (call); \
		va_end(ap); \
		forwarded_; \
	})

EXPORT int vprintf(const char *format, va_list ap)
{
	return vfprintf(stdout, format, ap);
}

EXPORT int printf(const char *format, ...)
{
	return FORWARD_ARGS(format, vfprintf(stdout, format, ap));
}

EXPORT int fprintf(FILE *f, const char *format, ...)
{
	return FORWARD_ARGS(format, vfprintf(f, format, ap));
}

EXPORT int __vprintf_chk(int flag, const char *format, va_list ap)
{
	return __vfprintf_chk(stdout, flag, format, ap);
}

EXPORT int __printf_chk(int flag, const char *format, ...)
{
	return FORWARD_ARGS(format, __vfprintf_chk(stdout, flag, format, ap));
}

EXPORT int __fprintf_chk(FILE *f, int flag, const char *format, ...)
{
	return FORWARD_ARGS(format, __vfprintf_chk(f, flag, format, ap));
}

EXPORT int fflush(FILE *f)
{
	if (!f) { /* flushes all streams */
		touch();
		return real(fflush)(f);
	}
	return STREAM_OUTPUT(f, __fpending(f), 0, real(fflush)(f));
}

EXPORT int fflush_unlocked(FILE *f)
{
	if (!f) {
		touch();
		return real(fflush_unlocked)(f);
	}
	return STREAM_OUTPUT(f, __fpending(f), 0, real(fflush_unlocked)(f));
}

EXPORT int fclose(FILE *f)
{
	if (C && __fpending(f))
		fflush(f);
	reader_of_stream(f); /* the reader's input ends */
	return real(fclose)(f);
}

/* The C library's dprintf writes inside the C library. */
EXPORT int vdprintf(int fd, const char *format, va_list ap)
{
	char *text;
	int n = vasprintf(&text, format, ap);
	if (n < 0)
		return -1;
	for (int done = 0; done < n;) {
		ssize_t r = write(fd, text + done, (size_t)(n - done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			n = -1;
			break;
		}
		done += (int)r;
	}
	free(text);
	return n;
}

EXPORT int dprintf(int fd, const char *format, ...)
{
	return FORWARD_ARGS(format, vdprintf(fd, format, ap));
}

EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	(void)flag;
	return vdprintf(fd, format, ap);
}

EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	(void)flag;
	return FORWARD_ARGS(format, vdprintf(fd, format, ap));
}
