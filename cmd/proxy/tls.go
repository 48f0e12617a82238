package main

import (
	"crypto/tls"
	"fmt"
)

// serverTLS makes the settings of --listen-cert and --listen-key; nil without.
func serverTLS(cert, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--listen-cert, --listen-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
