// Package http lends the network. It has the only constructor of outgoing HTTP
// clients in this project: every request of a plugin and of a native tool goes
// through a Client, and every hop of it is judged again.
//
// A request passes these gates in order: the text of the URL; its host and port
// against the lists of the Policy; and, when a connection is made, the address
// that is really dialled, so that a name that resolves to something else a
// moment later gains nothing. A redirect starts over at the first gate. Proxies
// of the environment are never used. What a server sends is bounded in time,
// size, decoded size and slowness.
package http
