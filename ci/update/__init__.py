"""The updater: reads what the vendors publish, and proposes rows. Nothing of it is shipped.

Each module of ``sources`` turns recorded bodies into rows and does nothing else; ``fetch`` alone talks to servers;
``merge`` compares the rows with the facts and refuses what only a person may decide; ``report`` shows it.
"""
