"""Many hosts at once: one inventory of Ansible, evidence, grouped plans, waves and reports."""
