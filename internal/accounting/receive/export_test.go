package receive

import "time"

// Hurry makes the handler wait for clients no longer than d.
func (h *Handler) Hurry(d time.Duration) { h.times = times{d, d, d} }
