package accounts

import (
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
)

// Submission has the names in a job's submission; "" for a name that the submission does not give. Partition is
// the first partition of the job's list.
type Submission struct {
	User, Account, Partition, QOS, Reservation string
}

// The errors with which slurmctld refuses a submission (slurm_errno.h).
const (
	InvalidAccount slurmspec.Errno = 2045 // ESLURM_INVALID_ACCOUNT
	InvalidQOS     slurmspec.Errno = 2066 // ESLURM_INVALID_QOS
)

// Assign finds the association and the QOS of a job (assoc_mgr_fill_in_assoc in assoc_mgr.c,
// _determine_and_validate_qos in job_mgr.c). It returns 0, or the error with which slurmctld
// refuses the job. Without enforcement the association and the QOS may be nil.
func (a *Accounts) Assign(s Submission, enforce Enforcement) (*Association, *QOS, slurmspec.Errno) {
	one := a.Find(s.User, s.Account, s.Partition)
	if one == nil && !enforce.Associations {
		one = a.Find(s.User, "", s.Partition)
	}
	if one == nil && enforce.Associations {
		return nil, nil, InvalidAccount
	}
	q := a.DefaultQOS(one)
	if s.QOS != "" {
		q = a.QOS[strings.ToLower(s.QOS)]
	}
	switch {
	case q == nil && enforce.QOS, q != nil && q.ReqResv && s.Reservation == "":
		return nil, nil, InvalidQOS
	case q != nil && enforce.QOS && one != nil && !slices.Contains(a.Allowed(one), q.Name):
		return nil, nil, InvalidQOS
	}
	return one, q, 0
}
