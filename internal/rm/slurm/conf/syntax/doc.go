// Package syntax reads Slurm's configuration files as src/common/parse_config.c does. It joins
// continued lines, removes comments and escapes, splits lines into Key=Value pairs, and parses the
// values of all types of Slurm's parser.
package syntax
