package forward

// SlurmProperties is the mapping of Slurm's documents.
var SlurmProperties = slurmProperties
