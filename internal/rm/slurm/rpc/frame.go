package rpc

import (
	"encoding/binary"
	"fmt"
)

// MaxMessage is the size in bytes up to which a message is accepted. Slurm itself
// goes to 1 GiB (MAX_MSG_SIZE); the largest thing a node gets is a batch script
// (max_script_size, 4 MiB unless configured) with its environment, so a length
// beyond this is a stream that has lost its place, not a message.
const MaxMessage = 256 << 20

const authNone = 100 // plugin id of auth/none

// Forward says for which further nodes a message is meant. The receiver passes it
// on and answers for all of them in the return list of its reply.
type Forward struct {
	// Nodes is the host list of the further nodes; empty if there are none.
	Nodes string
	// Count is the number of nodes in Nodes.
	Count uint16
	// Timeout is how long the sender waits for each level of the tree, in milliseconds.
	Timeout uint32
	// TreeWidth is the fan-out with which to pass the message on; 0 for the
	// configured one.
	TreeWidth uint16
}

// Return is one node's answer in the return list of a reply.
type Return struct {
	// Err is 0, or the errno with which forwarding to the node failed.
	Err uint32
	// Type is the type of the node's answer, or [ForwardFailed].
	Type Type
	// Node is the name of the node that answers.
	Node string
	// Body is the answer's body, in the version of the message around it.
	Body []byte
}

// Message is one message: header, auth/none credential and body.
type Message struct {
	Version Version
	Flags   uint16
	Type    Type
	Forward Forward
	Returns []Return
	// UID and GID are who the sender says it is.
	UID, GID uint32
	// Host is the name of the host that the sender says it is on.
	Host string
	// Body is the part that depends on Type. After [Decode] it shares memory with
	// the frame it was decoded from.
	Body []byte
}

// Append appends the message, with its length in front, to dst. It follows
// pack_header (slurm_protocol_pack.c), auth_g_pack (slurm_auth.c) and auth_p_pack
// (auth_none.c). A zero Version means 22.05; other versions than those of
// slurmctld 22.05 are an error, and so is a message of more than [MaxMessage] bytes.
func (m *Message) Append(dst []byte) ([]byte, error) {
	v := m.Version
	if v == 0 {
		v = V2205
	}
	p := protocolOf(v)
	if p == nil {
		return dst, fmt.Errorf("encoding %v: %v is not supported", m.Type, v)
	}
	if len(m.Returns) > 0xffff {
		return dst, fmt.Errorf("encoding %v: %d returns do not fit (at most 65535)", m.Type, len(m.Returns))
	}
	start := len(dst)
	e := encoder{b: dst}
	e.u32(0)
	e.u16(uint16(v))
	e.u16(m.Flags)
	if p.messageIndex {
		e.u16(0)
	}
	e.u16(uint16(m.Type))
	e.u32(uint32(len(m.Body)))
	e.u16(m.Forward.Count)
	if m.Forward.Count > 0 {
		e.str(m.Forward.Nodes)
		e.u32(m.Forward.Timeout)
		e.u16(m.Forward.TreeWidth)
	}
	e.u16(uint16(len(m.Returns)))
	for _, r := range m.Returns {
		e.u32(r.Err)
		e.u16(uint16(r.Type))
		e.str(r.Node)
		e.b = append(e.b, r.Body...)
	}
	e.u16(0) // original sender's address: none
	e.u32(authNone)
	e.u32(m.UID)
	e.u32(m.GID)
	e.str(m.Host)
	e.b = append(e.b, m.Body...)
	n := len(e.b) - start - 4
	if n > MaxMessage {
		return dst, fmt.Errorf("encoding %v: %d bytes are more than a message may have (%d)", m.Type, n, MaxMessage)
	}
	binary.BigEndian.PutUint32(e.b[start:], uint32(n))
	return e.b, nil
}

// Split cuts the first message off a stream's buffered bytes. It returns the
// message without its length (for [Decode]) and how many bytes of buffered it takes;
// frame is nil while the message is not complete, and need is then the number of
// bytes that buffered must hold for the next step. A length that no message can have
// is an error: the stream is of no further use.
func Split(buffered []byte) (frame []byte, need int, err error) {
	if len(buffered) < 4 {
		return nil, 4, nil
	}
	n := binary.BigEndian.Uint32(buffered)
	if n > MaxMessage {
		return nil, 0, fmt.Errorf("reading a message: length %d is beyond the limit of %d bytes", n, MaxMessage)
	}
	// version, flags, type, body length, forwards, returns, family, credential
	const least = 2 + 2 + 2 + 4 + 2 + 2 + 2 + 16
	if n < least {
		return nil, 0, fmt.Errorf("reading a message: length %d is less than a header takes (%d bytes)", n, least)
	}
	need = 4 + int(n)
	if len(buffered) < need {
		return nil, need, nil
	}
	return buffered[4:need:need], need, nil
}

// Decode reads one message without its length, as [Split] returns it. It follows
// unpack_header, slurm_unpack_addr_no_alloc (slurm_protocol_socket.c) and
// auth_p_unpack. The result's Body and the bodies of its Returns share memory with
// frame.
func Decode(frame []byte) (*Message, error) {
	d := newDecoder("a message's header", frame)
	m := &Message{Version: Version(d.u16("version"))}
	p := protocolOf(m.Version)
	if d.err == nil && p == nil {
		return nil, fmt.Errorf("decoding a message: %v is not supported (want %s)", m.Version, versions())
	}
	m.Flags = d.u16("flags")
	if p != nil && p.messageIndex {
		d.u16("message index")
	}
	m.Type = Type(d.u16("type"))
	if d.err == nil {
		d.what = fmt.Sprintf("the header of %v", m.Type)
	}
	bodyLen := d.u32("body length")
	m.Forward.Count = d.u16("forward count")
	if m.Forward.Count > 0 {
		m.Forward.Nodes = d.str("forward nodes")
		m.Forward.Timeout = d.u32("forward timeout")
		m.Forward.TreeWidth = d.u16("forward tree width")
	}
	m.Returns = d.returns(m.Version)
	d.address()
	if id := d.u32("credential plugin"); d.err == nil && id != authNone {
		d.fail("the credential is of plugin %d (want %d, auth/none)", id, authNone)
	}
	m.UID = d.u32("credential uid")
	m.GID = d.u32("credential gid")
	m.Host = d.str("credential host")
	if d.err == nil && uint64(bodyLen) != uint64(d.left()) {
		d.fail("the body is %d bytes long, %d are left", bodyLen, d.left())
	}
	m.Body = d.take(int(bodyLen), "body")
	if d.err != nil {
		return nil, d.err
	}
	return m, nil
}

// returns reads a return list. The bodies in it carry no length, so only answers
// whose size follows from their type can be read.
func (d *decoder) returns(v Version) []Return {
	n := int(d.u16("return count"))
	var a []Return
	for i := 0; i < n && d.err == nil; i++ {
		r := Return{
			Err:  d.u32("return error"),
			Type: Type(d.u16("return type")),
			Node: d.str("return node"),
		}
		switch r.Type {
		case 0, ForwardFailed:
		case ResponseRC, ResponsePrologExecuting:
			r.Body = d.take(4, "return body")
		case ResponsePing:
			r.Body = d.take(12, "return body")
		default:
			d.fail("a return of type %v cannot be read in %v", r.Type, v)
		}
		a = append(a, r)
	}
	return a
}

// address skips the original sender's address.
func (d *decoder) address() {
	const inet, inet6 = 2, 10
	switch d.u16("address family") {
	case inet:
		d.take(6, "address")
	case inet6:
		d.mem("address")
		d.u16("address port")
	}
}

// Reply starts the reply to a request: the same version, from uid 0, and one entry
// in the return list for each of the nodes to which the request was to be forwarded,
// with the same answer as this one. slurmctld takes the reply itself for the answer
// of the node it connected to, and finds the others by their names
// (slurm_receive_msgs in slurm_protocol_api.c, _thread_per_group_rpc in agent.c); a
// node that is missing from the list counts as one that does not respond.
func Reply(request *Message, typ Type, body []byte, forwarded []string) *Message {
	m := &Message{Version: request.Version, Type: typ, Body: body}
	for _, node := range forwarded {
		m.Returns = append(m.Returns, Return{Type: typ, Node: node, Body: body})
	}
	return m
}
