package search

// SetHitBytes sets the highest total size of the documents in an answer.
func (s *Server) SetHitBytes(n int) { s.hitBytes = n }
