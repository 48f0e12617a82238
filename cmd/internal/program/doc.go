// Package program is what the two programs of the project share at their door:
// exit codes, how an error is told, the version, checks of arguments, TLS
// settings and the log.
package program
