from spindle.cli.main import run

run()
