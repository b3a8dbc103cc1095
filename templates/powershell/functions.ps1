# Run an action, or show it.
function Invoke-Action {
    param([Parameter(Mandatory)] [scriptblock] $Action)
    if ($DryRun) { Write-Host ('+ ' + $Action.ToString().Trim()) } else { $null = & $Action }
}

function Test-Sum {
    param([string] $LiteralPath, [string] $Algorithm, [string] $Hash)
    if (-not (Test-Path -LiteralPath $LiteralPath -PathType Leaf)) { return $false }
    return (Get-FileHash -LiteralPath $LiteralPath -Algorithm $Algorithm).Hash -eq $Hash
}

# Delete the file and stop when it is another one than was planned.
function Assert-StackHash {
    param([string] $LiteralPath, [string] $Algorithm, [string] $Hash)
    if (Test-Sum -LiteralPath $LiteralPath -Algorithm $Algorithm -Hash $Hash) { return }
    Remove-Item -LiteralPath $LiteralPath -Force -ErrorAction SilentlyContinue
    throw ($LiteralPath + ' is not the file that was planned: its ' + $Algorithm + ' differs')
}

# Download a file under another name, check it, and only then give it its own.
function Save-StackFile {
    param([string] $Uri, [string] $LiteralPath, [string] $Hash = '', [long] $Size = 0)
    $null = New-Item -ItemType Directory -Path ([IO.Path]::GetDirectoryName($LiteralPath)) -Force
    $part = $LiteralPath + '.part'
    if (Test-Path -LiteralPath $part) { Remove-Item -LiteralPath $part -Force }
    try {
        # Invoke-WebRequest of Windows PowerShell 5.1 holds the file in memory, at most 2 GB of it.
        Start-BitsTransfer -Source $Uri -Destination $part
    } catch {
        Write-Host ('BITS cannot fetch it: ' + $_.Exception.Message)
        Invoke-WebRequest -Uri $Uri -OutFile $part -UseBasicParsing
    }
    if ($Size -gt 0 -and (Get-Item -LiteralPath $part).Length -ne $Size) {
        Remove-Item -LiteralPath $part -Force
        throw ($Uri + ' is not the file that was planned: its size differs')
    }
    if ($Hash -ne '') { Assert-StackHash -LiteralPath $part -Algorithm 'SHA256' -Hash $Hash }
    Move-Item -LiteralPath $part -Destination $LiteralPath -Force
}

function Get-Matching {
    param([string] $Path)
    return @(Get-Item -Path $Path -Force -ErrorAction SilentlyContinue)
}

function Copy-StackItem {
    param([string] $Path, [string] $Destination)
    $found = @(Get-Matching -Path $Path)
    if ($found.Count -eq 0) { throw ('nothing is there to copy: ' + $Path) }
    $null = New-Item -ItemType Directory -Path $Destination -Force
    foreach ($item in $found) { Copy-Item -LiteralPath $item.FullName -Destination $Destination -Recurse -Force }
}

# What the folder has already stays: the first copy that was kept is the one to go back to.
function Move-StackItem {
    param([string] $Path, [string] $Destination)
    foreach ($item in @(Get-Matching -Path $Path)) {
        $null = New-Item -ItemType Directory -Path $Destination -Force
        if (-not (Test-Path -LiteralPath (Join-Path -Path $Destination -ChildPath $item.Name))) {
            Move-Item -LiteralPath $item.FullName -Destination $Destination
        }
    }
}

function Rename-StackFolder {
    param([string] $LiteralPath, [string] $Destination)
    if (-not (Test-Path -LiteralPath $LiteralPath)) { return }
    if (Test-Path -LiteralPath $Destination) { throw ($Destination + ' already exists: move one of the two away') }
    Move-Item -LiteralPath $LiteralPath -Destination $Destination
}

function Remove-StackItem {
    param([string] $Path)
    foreach ($item in @(Get-Matching -Path $Path)) { Remove-Item -LiteralPath $item.FullName -Recurse -Force }
}

function Write-StackFile {
    param([string] $LiteralPath, [string] $Content)
    $null = New-Item -ItemType Directory -Path ([IO.Path]::GetDirectoryName($LiteralPath)) -Force
    [IO.File]::WriteAllText($LiteralPath, $Content)
}

function Get-KeptName {
    param([string] $Name, [string] $Scope)
    $null = New-Item -ItemType Directory -Path $StateFolder -Force
    return Join-Path -Path $StateFolder -ChildPath ($Scope + '-' + $Name + '.txt')
}

function Set-StackVariable {
    param([string] $Name, [string] $Value, [ValidateSet('Machine', 'User')] [string] $Scope)
    $old = [Environment]::GetEnvironmentVariable($Name, $Scope)
    if ($old -ceq $Value) { return }
    $kept = Get-KeptName -Name $Name -Scope $Scope
    if (-not (Test-Path -LiteralPath $kept)) { [IO.File]::WriteAllText($kept, [string] $old) }
    [Environment]::SetEnvironmentVariable($Name, $Value, $Scope)
    [Environment]::SetEnvironmentVariable($Name, $Value, 'Process')
}

function Restore-StackVariable {
    param([string] $Name, [ValidateSet('Machine', 'User')] [string] $Scope)
    $kept = Get-KeptName -Name $Name -Scope $Scope
    if (-not (Test-Path -LiteralPath $kept)) { return }
    $old = [IO.File]::ReadAllText($kept)
    if ($old -eq '') { $old = [NullString]::Value }
    [Environment]::SetEnvironmentVariable($Name, $old, $Scope)
    Remove-Item -LiteralPath $kept -Force
}

# PATH goes through the registry: SetEnvironmentVariable would write out what %SystemRoot% and the like stand for.
function Get-PathKey {
    param([string] $Scope)
    if ($Scope -eq 'User') { return 'HKCU:\Environment' }
    return 'HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager\Environment'
}

function Get-PathEntry {
    param([string] $Scope)
    $raw = (Get-Item -LiteralPath (Get-PathKey -Scope $Scope)).GetValue('Path', '', 'DoNotExpandEnvironmentNames')
    return @($raw -split ';' | Where-Object { $_ -ne '' })
}

function Set-PathEntry {
    param([string[]] $Entries, [string] $Scope)
    $key = Get-PathKey -Scope $Scope
    Set-ItemProperty -LiteralPath $key -Name 'Path' -Value ($Entries -join ';') -Type ExpandString
    # Deleting a variable that is not there changes nothing, and tells running programs to look at the others again.
    [Environment]::SetEnvironmentVariable('GPUSTACK_PATH_CHANGED', [NullString]::Value, $Scope)
}

function Add-StackPath {
    param([string] $Entry, [ValidateSet('Machine', 'User')] [string] $Scope, [switch] $IfPresent)
    if ($IfPresent -and -not (Test-Path -LiteralPath $Entry)) { return }
    $entries = @(Get-PathEntry -Scope $Scope)
    if ($entries -contains $Entry) { return }
    [IO.File]::AppendAllText((Get-KeptName -Name 'Path-added' -Scope $Scope), $Entry + [Environment]::NewLine)
    Set-PathEntry -Entries (@($Entry) + $entries) -Scope $Scope
    $env:Path = $Entry + ';' + $env:Path
}

function Remove-StackPath {
    param([string] $Entry, [ValidateSet('Machine', 'User')] [string] $Scope)
    $entries = @(Get-PathEntry -Scope $Scope)
    if ($entries -contains $Entry) { Set-PathEntry -Entries @($entries | Where-Object { $_ -ne $Entry }) -Scope $Scope }
}

function Undo-StackPath {
    param([string] $Entry, [ValidateSet('Machine', 'User')] [string] $Scope)
    $kept = Get-KeptName -Name 'Path-added' -Scope $Scope
    if (-not (Test-Path -LiteralPath $kept)) { return }
    $added = @([IO.File]::ReadAllLines($kept))
    if ($added -notcontains $Entry) { return }
    Remove-StackPath -Entry $Entry -Scope $Scope
    [IO.File]::WriteAllLines($kept, [string[]] @($added | Where-Object { $_ -ne $Entry }))
}

# One argument, quoted as programs of Windows take their command line apart.
function ConvertTo-Argument {
    param([AllowEmptyString()] [string] $Text)
    if ($Text -ne '' -and $Text -notmatch '[\s"]') { return $Text }
    return '"' + (($Text -replace '(\\*)"', '$1$1\"') -replace '(\\+)$', '$1$1') + '"'
}

function Invoke-Program {
    param([string] $Program, [AllowEmptyCollection()] [AllowEmptyString()] [string[]] $Arguments = @())
    $found = Get-Command -Name $Program -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
    if ($null -eq $found) { throw ($Program + ' is not there') }
    $start = New-Object -TypeName Diagnostics.ProcessStartInfo
    $start.FileName = $found.Source
    $start.Arguments = @($Arguments | ForEach-Object { ConvertTo-Argument -Text $_ }) -join ' '
    $start.UseShellExecute = $false
    $process = [Diagnostics.Process]::Start($start)
    $process.WaitForExit()
    if ($process.ExitCode -ne 0) { throw ($Program + ' ended with exit code ' + $process.ExitCode) }
}
