package workload

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
)

// ParseUsers reads a users file: a line "name:uid:group:gid" for each user. It skips blank
// lines, and comments from a # to the end of the line. name stands for the source in errors.
func ParseUsers(r io.Reader, name string) ([]hpc.User, error) {
	var users []hpc.User
	seen := make(map[string]bool)
	err := lines.Each(r, name, func(_ int, line []byte) error {
		text, _, _ := strings.Cut(string(line), "#")
		if text = strings.TrimSpace(text); text == "" {
			return nil
		}
		fields := strings.Split(text, ":")
		if len(fields) != 4 {
			return errors.New("not a user (want name:uid:group:gid)")
		}
		uid, err := parseID("uid", fields[1])
		if err != nil {
			return err
		}
		gid, err := parseID("gid", fields[3])
		if err != nil {
			return err
		}
		user := hpc.User{Name: strings.TrimSpace(fields[0]), UID: uid, Group: strings.TrimSpace(fields[2]), GID: gid}
		if user.Name == "" || user.Group == "" {
			return errors.New("empty name (want name:uid:group:gid)")
		}
		if err := checkNames(user); err != nil {
			return err
		}
		if seen[user.Name] {
			return fmt.Errorf("user %s is there twice", user.Name)
		}
		seen[user.Name] = true
		users = append(users, user)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading users: %w", err)
	}
	return users, nil
}

// ParsePasswd reads users from a passwd(5) and a group(5) file. If a user's group is not in the
// group file, its number becomes its name. ParsePasswd skips comments and NIS lines ("+::").
func ParsePasswd(passwd, group io.Reader) ([]hpc.User, error) {
	groups := make(map[uint32]string)
	err := eachEntry(group, "group", func(fields []string) error {
		gid, err := parseID("gid", fields[2])
		if err == nil && groups[gid] == "" {
			groups[gid] = fields[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var users []hpc.User
	seen := make(map[string]bool)
	err = eachEntry(passwd, "passwd", func(fields []string) error {
		if len(fields) < 4 {
			return errors.New("not a passwd entry (want name:password:uid:gid:...)")
		}
		uid, err := parseID("uid", fields[2])
		if err != nil {
			return err
		}
		gid, err := parseID("gid", fields[3])
		if err != nil {
			return err
		}
		if seen[fields[0]] {
			return nil // getpwnam(3) takes the first, too
		}
		seen[fields[0]] = true
		user := hpc.User{Name: fields[0], UID: uid, Group: groups[gid], GID: gid}
		if user.Group == "" {
			user.Group = fields[3]
		}
		if err := checkNames(user); err != nil {
			return err
		}
		users = append(users, user)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return users, nil
}

// eachEntry calls f with the fields of each entry of a passwd or group file.
func eachEntry(r io.Reader, name string, f func(fields []string) error) error {
	err := lines.Each(r, name, func(_ int, line []byte) error {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' || text[0] == '+' || text[0] == '-' {
			return nil
		}
		fields := strings.Split(text, ":")
		if len(fields) < 3 || fields[0] == "" {
			return fmt.Errorf("not a %s entry (want name:password:id:...)", name)
		}
		return f(fields)
	})
	if err != nil {
		return fmt.Errorf("reading users: %w", err)
	}
	return nil
}

func checkNames(u hpc.User) error {
	if err := hpc.CheckUserName(u.Name); err != nil {
		return fmt.Errorf("user %w", err)
	}
	if err := hpc.CheckUserName(u.Group); err != nil {
		return fmt.Errorf("group %w", err)
	}
	return nil
}

func parseID(what, s string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s %q: not a number of 32 bits", what, s)
	}
	return uint32(n), nil
}
