"""Every contact with the outside: commands, files, downloads. No word of the domain in here."""
