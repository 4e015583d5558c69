package search

// SetHitBytes sets how many bytes the documents of an answer may have.
func (s *Server) SetHitBytes(n int) { s.hitBytes = n }
