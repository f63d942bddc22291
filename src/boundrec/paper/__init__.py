"""Every experiment of the paper: one short file each, one command for all (`boundrec reproduce`)."""
