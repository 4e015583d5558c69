// Package accounts looks up the users and groups of this machine, also those of LDAP and SSSD. rmreplay is
// a static program and cannot load the modules of the C library's name service switch. So it runs
// getent(1) for accounts that /etc/passwd and /etc/group lack.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// patience is how long a directory server may take to answer. Name services give up by themselves
// after 30 s, as a rule.
const patience = time.Minute

// notFound is the exit status of getent for a key that is in no database; see getent(1).
const notFound = 2

// Has reports whether a user or a group has the number id. It returns an error if it cannot find
// out, for example because the directory server is down.
func Has(id int) (bool, error) {
	key := strconv.Itoa(id)
	if _, err := user.LookupId(key); err == nil {
		return true, nil
	}
	if _, err := user.LookupGroupId(key); err == nil {
		return true, nil
	}
	for _, database := range []string{"passwd", "group"} {
		if line, err := ask(database, key); line != "" || err != nil {
			return line != "", err
		}
	}
	return false, nil
}

// Name returns the name of the user with a number, or "" if no user has it. Name returns the same
// errors as [Has].
func Name(uid int) (string, error) {
	key := strconv.Itoa(uid)
	if u, err := user.LookupId(key); err == nil {
		return u.Username, nil
	}
	line, err := ask("passwd", key)
	name, _, _ := strings.Cut(line, ":")
	return name, err
}

// ask returns getent's line for a key, "" if there is no such entry. A machine without getent has
// only the accounts of its files.
func ask(database, key string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", database, key).Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return strings.TrimSpace(string(out)), nil
	case errors.Is(err, exec.ErrNotFound):
		return "", nil
	case errors.As(err, &exit) && exit.ExitCode() == notFound:
		return "", nil
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer in %v", patience)
	}
	return "", fmt.Errorf("looking up an account: getent %s %s: %w (want a name service that answers)", database, key, err)
}
