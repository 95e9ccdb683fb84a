"""x."""

import click

importing = click.Group("import", help="Take over what another scheduler has been told.")
