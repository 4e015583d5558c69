// Package syntax reads the text of Slurm's configuration files as src/common/parse_config.c does:
// lines with their comments, continuations and escapes, the Key=Value pairs of a line, and the
// values of the types that Slurm's parser knows.
package syntax
