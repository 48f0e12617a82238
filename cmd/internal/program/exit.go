package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamgauge/streamgauge/configs"
)

// Exit codes of the contract.
const (
	Failed      = 1
	BadUsage    = 2
	Interrupted = 130
)

// Exit is an error that ends a program with a code. A nil Err prints nothing.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usage marks an error as a mistake of usage or configuration; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Exit{BadUsage, err}
}

// Execute runs a command tree and returns the exit code. Errors are told on
// stderr, a sentence a line, behind the program's name.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.Version = Version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(nearFlag(cmd, err)) })
	root.AddCommand(newVersion(root.Name(), stdout))
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := Failed
	var exit *Exit
	switch {
	case errors.As(err, &exit):
		code, err = exit.Code, exit.Err
	case ctx.Err() != nil:
		code = Interrupted
	}
	if err == nil {
		return code
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), strings.TrimRight(line, "\n"))
	}
	if code == BadUsage {
		fmt.Fprintf(stderr, "%s: see %s --help\n", root.Name(), root.Name())
	}
	return code
}

// nearFlag adds the flag that a mistyped one is nearest to.
func nearFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return fmt.Errorf("%w%s", err, configs.Hint("--"+unknown.GetSpecifiedName(), names))
}

// NoArgs makes an argument a usage error that names it.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return Usage(fmt.Errorf("%s takes no argument, and was given %q", cmd.CommandPath(), args[0]))
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return Usage(fmt.Errorf("unknown command %q%s", args[0], configs.Hint(args[0], names)))
}

// SomeFiles asks for at least one argument.
func SomeFiles(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return Usage(fmt.Errorf("%s needs at least one file", cmd.CommandPath()))
}
