package receive

import "time"

// Hurry sets all time limits for clients to d.
func (h *Handler) Hurry(d time.Duration) { h.times = times{d, d, d} }
