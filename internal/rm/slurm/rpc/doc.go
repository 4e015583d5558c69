// Package rpc reads and writes the messages between slurmctld, its compute nodes and its clients.
// It does no input or output and uses no clock. The caller owns the connections, sends the
// messages and decides how long to wait. Package wire reads and writes the single values.
//
// # Messages
//
// A message is a length (u32, which does not count itself), a header, an authentication credential
// and a body:
//
//	header      u16 version, u16 flags, [u16 0 before 22.05], u16 type, u32 body length,
//	            u16 forwards [str nodes, u32 timeout ms, u16 tree width, u16 depth since 24.11],
//	            u16 returns [u32 error, u16 type, str node, body]...,
//	            u16 address family [address]
//	credential  u32 plugin (100 = auth/none), u32 uid, u32 gid, str host
//	body        depends on the type
//
// A [Message] has all three parts. [Split] cuts a message out of a stream, [Decode] reads it, and
// [Message.Append] writes it. The credential is that of auth/none: slurmctld believes whatever
// identity the sender claims. A replay therefore needs no privileges, and its daemons must listen
// on loopback only.
//
// Each body has a type. The Decode functions read what slurmctld sends ([DecodeBatchLaunch],
// [DecodeSubmitResponse]). [Codec.Body] writes what nodes and clients send ([NodeRegistration],
// [JobDesc]). [Codec.Answer] writes what nodes answer ([Ping]).
//
// # Versions
//
// Each release of Slurm has a version of the protocol. The slurmctld of a release also accepts the versions of the two
// or three releases before. For each version, a file such as protocol_22_05.go has a table of the functions that read
// and write the messages. A [Codec] belongs to a release and uses the newest table that the release's slurmctld accepts
// (slurmspec.Releases): 22.05's table for 22.05 and 23.02, 23.11's for 23.11 and 24.05, and 24.11's for 24.11 to 26.05.
//
// For a node that has not registered since slurmctld started, slurmctld uses the oldest version
// that it accepts. An answer must have the version of its request, so messages to nodes are read
// and answered in their own version. The tables of 20.11, 21.08, 23.02 and 24.05 contain only
// these messages. When a node has not answered, slurmctld repeats some messages in its own version
// instead of the node's. The tables of 25.05, 25.11 and 26.05 only read these repeated messages.
//
// # To add a release
//
// Two files change:
//
//  1. The release's row in slurmspec.Releases gets its numbers. If the release's slurmctld accepts
//     the newest table here, Driver is that table's number.
//  2. The tables of slurmspec/history/history.go get the keys, options, plugins and defaults of
//     slurm.conf that the release has added, removed or changed.
//
// If slurmctld accepts none of the tables, or changes a layout that the driver needs, add a file like protocol_24_11.go
// that declares a version. The file makes the version's table with protocol.next: a copy of the previous table, with
// other functions for the layouts that differ. The init function of the file registers the table. A layout that has not
// changed needs no entry.
//
// slurmctld of the release can speak older versions to nodes, from the row's Oldest on, and its
// own version. Each of these versions needs a table, too; for the release's own version, a table
// such as those in protocol_25_05.go suffices. TestProtocolsOfReleases checks that all tables
// exist. TestRealController runs jobs through the release's slurmctld with nodes of each version;
// its flag -capture writes the messages to testdata/captured for tests without Slurm.
//
// # Hostile input
//
// Decoders compare every length with the remaining bytes before they allocate memory, return
// errors that name the message and the field, and never panic. Bytes after the last field of a
// body are an error, too: they show that the fields were misread.
package rpc
