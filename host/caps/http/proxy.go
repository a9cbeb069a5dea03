package http

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// throughProxy opens a tunnel through the proxy to an address that was resolved
// and judged here: a proxy that resolves names itself would be a way around the
// last gate.
func (c *Client) throughProxy(ctx context.Context, l leave, addr string) (net.Conn, error) {
	ip, err := c.resolve(ctx, l, addr)
	if err != nil {
		return nil, err
	}
	proxy := c.opt.Proxy
	host := proxy.Host
	if proxy.Port() == "" {
		host = net.JoinHostPort(proxy.Hostname(), "80")
	}
	conn, err := (&net.Dialer{Timeout: c.lim.Dial, Resolver: c.opt.Resolver}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	if err := c.tunnel(ctx, conn, ip); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// resolve returns the first address of a host; all of them must be allowed.
func (c *Client) resolve(ctx context.Context, l leave, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	res := c.opt.Resolver
	if res == nil {
		res = net.DefaultResolver
	}
	var list []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		list = []netip.Addr{a}
	} else if list, err = res.LookupNetIP(ctx, "ip", host); err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%s has no address", host)
	}
	for _, a := range list {
		if a = a.Unmap(); !l.private {
			if err := CheckAddr(a); err != nil {
				return "", &blockedError{a.String(), err.Error()}
			}
		}
	}
	return net.JoinHostPort(list[0].Unmap().String(), port), nil
}

// tunnel asks the proxy for a connection.
func (c *Client) tunnel(ctx context.Context, conn net.Conn, to string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n"
	if u := c.opt.Proxy.User; u != nil {
		password, _ := u.Password()
		req += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	if _, err := conn.Write([]byte(req + "\r\n")); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return abi.NewError(abi.CodeNetFailed, "the proxy refused the connection with status %d", res.StatusCode)
	}
	return nil
}
