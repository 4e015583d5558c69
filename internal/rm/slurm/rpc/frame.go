package rpc

import (
	"encoding/binary"
	"fmt"
)

// MaxMessage is the largest size of a message, in bytes. Slurm itself allows 1 GiB (MAX_MSG_SIZE). The largest message
// to a node is a batch script (max_script_size, 4 MiB by default) with its environment, so a greater length shows that
// the stream was misread.
const MaxMessage = 256 << 20

const authNone = 100 // plugin id of auth/none

// Forward names further nodes that must get the message. The receiver passes the message on, and
// its reply contains the answers of all these nodes.
type Forward struct {
	// Nodes is the host list of the further nodes; may be empty.
	Nodes string
	// Count is the number of nodes in Nodes.
	Count uint16
	// Timeout is how long the sender waits for each level of the tree, in milliseconds.
	Timeout uint32
	// TreeWidth is the number of nodes to which each node passes the message on; 0 for slurm.conf's
	// TreeWidth.
	TreeWidth uint16
	// TreeDepth is the depth of the tree; 0 in versions before 24.11.
	TreeDepth uint16
	// Addresses are the addresses of nodes that slurm.conf lacks (cloud and dynamic nodes), as the
	// credential plugin packs them; empty unless the message has the flag SLURM_PACK_ADDRS.
	Addresses string
}

// Return is one node's answer in the return list of a reply.
type Return struct {
	// Err is 0, or the error number of a failed forwarding to the node.
	Err uint32
	// Type is the type of the node's answer, or [ForwardFailed].
	Type Type
	// Node is the name of the node that answers.
	Node string
	// Body is the answer's body, in the version of the enclosing message.
	Body []byte
}

// Message is one message: header, auth/none credential and body.
type Message struct {
	Version Version
	Flags   uint16
	Type    Type
	Forward Forward
	Returns []Return
	// UID and GID are the user and the group that the sender claims.
	UID, GID uint32
	// Host is the name of the host that the sender claims to be on.
	Host string
	// Body is the part of the message whose layout depends on Type. After [Decode] it shares memory
	// with the decoded frame.
	Body []byte
}

// Append appends the message, with its length in front, to dst. It follows pack_header
// (slurm_protocol_pack.c), auth_g_pack (slurm_auth.c) and auth_p_pack (auth_none.c). It returns an
// error if the version has no table or if the message exceeds [MaxMessage] bytes.
func (m *Message) Append(dst []byte) ([]byte, error) {
	p := protocolOf(m.Version)
	if p == nil {
		return dst, fmt.Errorf("encoding %v: %v is not supported (want %s)", m.Type, m.Version, versions())
	}
	if len(m.Returns) > 0xffff {
		return dst, fmt.Errorf("encoding %v: the return list has %d entries (want at most 65535)", m.Type, len(m.Returns))
	}
	start := len(dst)
	e := newEncoder(dst, p)
	e.U32(0) // room for the length, which is set below
	e.U16(uint16(m.Version))
	p.appendHeader(e, m)
	e.Bytes = append(e.Bytes, m.Body...)
	n := len(e.Bytes) - start - 4
	if n > MaxMessage {
		return dst, fmt.Errorf("encoding %v: the message has %d bytes (want at most %d)", m.Type, n, MaxMessage)
	}
	binary.BigEndian.PutUint32(e.Bytes[start:], uint32(n))
	return e.Bytes, nil
}

// Split cuts the first message off the buffered bytes of a stream. frame is the message without
// its length field, for [Decode]; need is the number of bytes that the message takes in buffered.
//
// While the message is incomplete, frame is nil, and need is the number of bytes that buffered
// must contain for the next step. An impossible length is an error, after which the stream cannot
// be read on.
func Split(buffered []byte) (frame []byte, need int, err error) {
	if len(buffered) < 4 {
		return nil, 4, nil
	}
	n := binary.BigEndian.Uint32(buffered)
	if n > MaxMessage {
		return nil, 0, fmt.Errorf("reading a message: length %d is beyond the limit of %d bytes", n, MaxMessage)
	}
	// version, flags, type, body length, forwards, returns, family
	const least = 2 + 2 + 2 + 4 + 2 + 2 + 2
	if n < least {
		return nil, 0, fmt.Errorf("reading a message: length %d is less than a header takes (%d bytes)", n, least)
	}
	need = 4 + int(n)
	if len(buffered) < need {
		return nil, need, nil
	}
	return buffered[4:need:need], need, nil
}

// Decode reads a frame of [Split]. It follows unpack_header, slurm_unpack_addr_no_alloc
// (slurm_protocol_socket.c) and auth_p_unpack. The result's Body and the bodies of its Returns
// share memory with frame.
func Decode(frame []byte) (*Message, error) {
	d := newDecoder("a message's header", frame)
	m := &Message{Version: Version(d.U16("version"))}
	if d.Err() != nil {
		return nil, d.Err()
	}
	if d.protocol = protocolOf(m.Version); d.protocol == nil {
		return nil, fmt.Errorf("decoding a message: %v is not supported (want %s)", m.Version, versions())
	}
	length := d.protocol.readHeader(d, m)
	if d.Err() == nil && uint64(length) != uint64(d.Left()) {
		d.Fail("the body is %d bytes long, %d are left", length, d.Left())
	}
	m.Body = d.Take(int(length), "body")
	if d.Err() != nil {
		return nil, d.Err()
	}
	return m, nil
}

// Reply returns the reply to a request, in the request's version and from uid 0. If the request
// must be forwarded to further nodes, the return list has an entry with the same answer for each
// of them.
//
// slurmctld takes the reply itself as the answer of the node that it connected to. slurmctld finds the answers of the
// other nodes by their names (slurm_receive_msgs in slurm_protocol_api.c, _thread_per_group_rpc in agent.c). A node
// that is missing in the list counts as not responding.
func Reply(request *Message, typ Type, body []byte, forwarded []string) *Message {
	m := &Message{Version: request.Version, Type: typ, Body: body}
	for _, node := range forwarded {
		m.Returns = append(m.Returns, Return{Type: typ, Node: node, Body: body})
	}
	return m
}
