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

// ParseUsers reads a users file. It has a line "name:uid:group:gid" for each user; ":group,group"
// may follow for the user's further groups. It skips blank lines, and comments from a # to the end
// of the line. The parameter name is the source's name in errors.
func ParseUsers(r io.Reader, name string) ([]hpc.User, error) {
	var users []hpc.User
	seen := make(map[string]bool)
	err := lines.Each(r, name, func(_ int, line []byte) error {
		text, _, _ := strings.Cut(string(line), "#")
		if text = strings.TrimSpace(text); text == "" {
			return nil
		}
		fields := strings.Split(text, ":")
		if len(fields) != 4 && len(fields) != 5 {
			return errors.New("not a user (want name:uid:group:gid or name:uid:group:gid:GROUP,GROUP)")
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
		if len(fields) == 5 {
			if user.Groups, err = furtherGroups(fields[4]); err != nil {
				return err
			}
		}
		if err := checkNames(user); err != nil {
			return err
		}
		if seen[user.Name] {
			return fmt.Errorf("user %s occurs twice", user.Name)
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

// UserLine returns the line of a user in a users file, as [ParseUsers] reads it.
func UserLine(u hpc.User) string {
	line := fmt.Sprintf("%s:%d:%s:%d", u.Name, u.UID, u.Group, u.GID)
	if len(u.Groups) > 0 {
		line += ":" + strings.Join(u.Groups, ",")
	}
	return line + "\n"
}

// furtherGroups reads the names after the last colon of a user's line.
func furtherGroups(list string) (groups []string, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return nil, errors.New("empty name of a group (want name:uid:group:gid:GROUP,GROUP)")
		}
		groups = append(groups, name)
	}
	return groups, nil
}

func checkNames(u hpc.User) error {
	if err := hpc.CheckUserName(u.Name); err != nil {
		return fmt.Errorf("user %w", err)
	}
	for _, name := range append([]string{u.Group}, u.Groups...) {
		if err := hpc.CheckUserName(name); err != nil {
			return fmt.Errorf("group %w", err)
		}
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
