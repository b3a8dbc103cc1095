# Copy a file that you have downloaded and put next to this script.
function Copy-OwnFile {
    param([string] $Name, [string] $LiteralPath, [string] $Hash)
    $source = Join-Path -Path $PSScriptRoot -ChildPath $Name
    if (-not (Test-Path -LiteralPath $source)) { throw ('put ' + $Name + ' next to this script: ' + $source) }
    if (-not (Test-Sum -LiteralPath $source -Algorithm 'SHA256' -Hash $Hash)) {
        throw ($source + ' is not the file that was planned: its SHA256 differs')
    }
    $null = New-Item -ItemType Directory -Path ([IO.Path]::GetDirectoryName($LiteralPath)) -Force
    Copy-Item -LiteralPath $source -Destination $LiteralPath -Force
}
