package vclock

// Functions of the C library that programs import, without duplicates. A test checks that handled
// agrees with the preload library.

// handled are the functions that the preload library replaces.
const handled = `
	_Exit __dprintf_chk __fgets_chk __fprintf_chk __fread_chk __getdelim __overflow __poll_chk
	__ppoll_chk __printf_chk __read_chk __recv_chk __start_rmr_loaders __stop_rmr_loaders
	__uflow __underflow __vdprintf_chk __vfprintf_chk __vprintf_chk _exit accept accept4 alarm
	calloc clock_gettime clock_nanosleep close close_range closefrom connect dprintf dup2 dup3
	epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd_read eventfd_write execl execle
	execlp execv execve execvp execvpe fclose fexecve fflush fflush_unlocked fgetc fgets
	fgets_unlocked fork fprintf fputc fputs fputs_unlocked fread fread_unlocked fwrite
	fwrite_unlocked getc getchar getdelim getitimer getline gettimeofday initgroups kill killpg
	listen nanosleep pause pclose poll popen posix_spawn posix_spawnp ppoll prctl printf
	pselect pthread_cancel pthread_cond_broadcast pthread_cond_clockwait pthread_cond_destroy
	pthread_cond_init pthread_cond_signal pthread_cond_timedwait pthread_cond_wait
	pthread_create pthread_detach pthread_join pthread_kill pthread_mutex_init
	pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_unlock pthread_rwlock_init
	pthread_rwlock_rdlock pthread_rwlock_unlock pthread_rwlock_wrlock pthread_tryjoin_np putc
	putchar puts read recv recvfrom recvmsg sched_getaffinity sched_yield select sem_init
	sem_open sem_post sem_timedwait sem_wait send sendmsg sendto setcontext setegid seteuid
	setgid setgroups setitimer setregid setresgid setresuid setreuid setuid shutdown sigqueue
	sigsuspend sigtimedwait sigwait sigwaitinfo sleep swapcontext system time timer_create
	timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
	timerfd_settime timespec_get ualarm usleep vdprintf vfork vfprintf vprintf wait wait3 wait4
	waitid waitpid write writev
`

// unhandled are the functions that the preload library should replace, but does not.
var unhandled = map[Effect]string{
	Waits: `
	aio_suspend cnd_timedwait cnd_wait fanotify_init fgetwc fgetws flock getwc getwchar
	inotify_add_watch inotify_init inotify_init1 io_getevents lio_listio lockf lockf64 mq_receive
	mq_send mq_timedreceive mq_timedsend msgrcv msgsnd mtx_lock mtx_timedlock preadv preadv2
	pthread_barrier_wait pthread_clockjoin_np pthread_mutex_clocklock pthread_rwlock_clockrdlock
	pthread_rwlock_clockwrlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
	pthread_timedjoin_np readv recvmmsg sem_clockwait semop semtimedop sendfile sendfile64
	sendmmsg sigpause splice tcdrain tee thrd_join thrd_sleep vmsplice
`,
	ReadsTime: `
	adjtime adjtimex clock_adjtime clock_settime ftime futimens futimes lutimes ntp_adjtime
	ntp_gettime ntp_gettimex settimeofday times timespec_getres utime utimensat utimes
`,
	Starts: `
	_Fork __clone __clone2 clone execveat forkpty pidfd_spawn pidfd_spawnp thrd_create
`,
	Wakes: `
	mq_notify pidfd_send_signal pthread_sigqueue pwritev pwritev2 tgkill
`,
	Calls: `
	syscall
`,
}

// harmless are functions that, as Slurm 22.05 to 26.05 uses them (programs, plugins and their
// libraries), do not wait, do not read the time, and do not make threads or processes. Functions
// that query a name service wait for its answer in real time. Meanwhile their thread counts as
// running, so the virtual clock stands still. fscanf is only used to read files. The last two
// lines are functions that builds without _FORTIFY_SOURCE or without optimization import.
const harmless = `
	__asprintf_chk __assert_fail __ctype_b_loc __ctype_get_mb_cur_max __ctype_tolower_loc
	__ctype_toupper_loc __cxa_atexit __cxa_finalize __environ __errno_location __explicit_bzero_chk
	__fdelt_chk __fsetlocking __h_errno_location __isoc23_fscanf __isoc23_scanf __isoc23_sscanf
	__isoc23_strtol __isoc23_strtoll __isoc23_strtoul __isoc23_strtoull __isoc23_vfscanf
	__isoc23_vsscanf __isoc99_fscanf __isoc99_scanf __isoc99_sscanf __isoc99_vfscanf
	__isoc99_vsscanf __libc_current_sigrtmax __libc_current_sigrtmin __libc_single_threaded
	__libc_start_main __longjmp_chk __mbrlen __memcpy_chk __memmove_chk __memset_chk __open64_2
	__openat64_2 __progname __progname_full __register_atfork __res_nclose __res_ninit
	__sched_cpualloc __sched_cpucount __sched_cpufree __sigsetjmp __snprintf_chk __sprintf_chk
	__stack_chk_fail __stpcpy_chk __strcat_chk __strcpy_chk __strncat_chk __strncpy_chk __sysconf
	__syslog_chk __tls_get_addr __vasprintf_chk __vsnprintf_chk __vsprintf_chk __vsyslog_chk
	__xpg_basename __xpg_strerror_r _longjmp _setjmp abort access acos arc4random asin atan atan2
	bind bindtextdomain btowc capget capset ceil cfgetospeed chdir chmod chown chroot
	clearenv clearerr clock clock_getres closedir closelog cos cosh creat dcgettext difftime dirfd
	dirname div dladdr dlclose dlerror dlinfo dlopen dlsym dn_expand duplocale endgrent endmntent
	endpwent endutent environ epoll_create1 error eventfd exit exp exp10 faccessat fchdir fchmod
	fchmodat fchown fchownat fcntl fcntl64 fdopen fdopendir feof ferror fesetround fgetxattr fileno
	flockfile floor fma fmod fnmatch fopen fopen64 free freeaddrinfo freeifaddrs freelocale
	fremovexattr freopen frexp fscanf fsconfig fseek fsetxattr fstat fstat64 fstatat fstatat64
	fstatfs fstatfs64 fstatvfs64 fsync ftell ftruncate ftruncate64 funlockfile gai_strerror
	get_current_dir_name getaddrinfo getauxval getcontext getcwd getdtablesize getegid getentropy
	getenv geteuid getgid getgrent_r getgrgid getgrgid_r getgrnam_r getgrouplist getgroups
	gethostbyname gethostname getifaddrs getlogin getmntent getmntent_r getnameinfo getopt
	getopt_long getpagesize getpeername getpgid getpgrp getpid getppid getpriority getprotobynumber
	getpwent getpwent_r getpwnam getpwnam_r getpwuid getpwuid_r getrandom getresgid getresuid
	getrlimit getrlimit64 getrusage getservbyname getservbyport getsid getsockname getsockopt
	getspnam_r gettid getuid getutline getxattr glob globfree gmtime gmtime_r hcreate hcreate_r
	hdestroy hdestroy_r hsearch hsearch_r hstrerror if_indextoname if_nametoindex in6addr_loopback
	inet_nsap_addr inet_ntop inet_pton inotify_rm_watch ioctl isalnum isatty isdigit isspace
	iswalnum iswcntrl iswdigit iswlower iswprint iswspace iswupper isxdigit lchown ldexp lgetxattr
	link localeconv localtime localtime_r log log10 log2 logl lrand48 lrint lseek lseek64 lsetxattr
	lstat lstat64 madvise makecontext mallinfo2 malloc malloc_trim malloc_usable_size mblen mbrtowc
	mbstowcs mbtowc memccpy memchr memcmp memcpy memfd_create memmem memmove mempcpy memset mkdir
	mkdirat mknod mkostemp64 mkstemp mktime mlock mmap mmap64 modf modff mount mprotect mq_getattr
	mremap munmap name_to_handle_at nearbyint newlocale nl_langinfo ns_get16 ns_initparse ns_parserr
	open open64 open_memstream openat openat64 opendir openlog parse_printf_format pathconf perror
	pidfd_open pipe pipe2 posix_fallocate64 posix_memalign pow powl program_invocation_name
	program_invocation_short_name pthread_attr_destroy pthread_attr_init pthread_attr_setdetachstate
	pthread_attr_setscope pthread_attr_setstacksize pthread_condattr_destroy pthread_condattr_init
	pthread_condattr_setclock pthread_exit pthread_getaffinity_np pthread_getspecific
	pthread_key_create pthread_key_delete pthread_mutex_destroy
	pthread_mutex_trylock pthread_mutexattr_destroy pthread_mutexattr_init pthread_mutexattr_settype
	pthread_once pthread_rwlock_destroy pthread_rwlock_tryrdlock
	pthread_rwlock_trywrlock pthread_self pthread_setaffinity_np pthread_setcancelstate
	pthread_setcanceltype pthread_setspecific pthread_sigmask putenv pwrite64 qsort qsort_r raise
	rand random readdir readdir64 readlink readlinkat realloc reallocarray realpath regcomp regerror
	regexec regfree remainder remove removexattr rename res_nsearch rewind rewinddir rmdir scanf
	sched_getcpu sched_setaffinity secure_getenv sem_destroy setbuf
	setenv setfsgid setfsuid setgrent setlocale setmntent setns setpgid setpriority
	setpwent setrlimit setrlimit64 setsid setsockopt setutent setvbuf setxattr shmat shmdt shmget
	sigaction sigaddset sigdelset sigemptyset sigfillset sigisemptyset sigismember siglongjmp signal
	signalfd sigprocmask sin sinh snprintf socket socketpair sprintf sqrt srand srand48 srandom stat
	stat64 statfs statfs64 statx stderr stdin stdout stpcpy strcasecmp strcasestr strcat strchr
	strchrnul strcmp strcoll strcpy strcspn strdup strerror strerror_r strerrorname_np strftime
	strlcpy strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep
	strsignal strspn strstr strtod strtod_l strtof strtok strtok_r strtol strtold strtoll strtoul
	strtoull sysconf tan tanh tcflow tcflush tcgetattr tcgetpgrp tcsetattr tdelete tfind
	tmpfile tmpnam towlower towupper tsearch ttyname ttyname_r twalk umask umount umount2 uname
	ungetc unlink unlinkat unsetenv unshare uselocale vfscanf vscanf wcrtomb wcslen wcsrtombs
	wcstombs wctob wcwidth wmemchr wmemcpy
	asprintf atof atoi atol atoll bsearch explicit_bzero gnu_dev_major gnu_dev_minor htonl htons
	longjmp ntohl ntohs syslog tolower toupper vasprintf vsnprintf vsprintf vsyslog
`
