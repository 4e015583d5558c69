package cli

import (
	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/cli/reference"
)

// newDocsCommand returns the hidden command with which `make docs` generates the man pages
// and the command reference.
func newDocsCommand(g *globals) *cobra.Command {
	c := &cobra.Command{
		Use:    "docs",
		Short:  "Generate the man pages and the command reference",
		Long:   `Generates documents from the commands themselves. Contributors run it with make docs.`,
		Hidden: true,
	}
	c.AddCommand(
		&cobra.Command{
			Use:     "man DIR",
			Short:   "Write one man page for each command",
			Example: `  rmreplay docs man build/man/man1`,
			Args:    console.WantArgs("DIR"),
			RunE: func(c *cobra.Command, args []string) error {
				n, err := reference.WriteManPages(c.Root(), "rmreplay "+Version(), args[0])
				return g.wrote(n, "man pages", args[0], err)
			},
		},
		&cobra.Command{
			Use:     "markdown DIR",
			Short:   "Write one page of Markdown for each command",
			Example: `  rmreplay docs markdown docs/commands`,
			Args:    console.WantArgs("DIR"),
			RunE: func(c *cobra.Command, args []string) error {
				n, err := reference.WriteMarkdown(c.Root(), args[0])
				return g.wrote(n, "pages", args[0], err)
			},
		})
	return c
}

// wrote prints how many documents were written. If err is not nil, it prints nothing and returns err.
func (g *globals) wrote(n int, what, dir string, err error) error {
	if err == nil {
		g.Say("wrote %d %s to %s", n, what, dir)
	}
	return err
}
