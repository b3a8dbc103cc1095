# Stop on a computer that the plan is not for, before anything changes.
function Assert-StackHost {
    param([string] $System, [string] $Architecture, [string] $Name)
    $caption = (Get-CimInstance -ClassName Win32_OperatingSystem).Caption
    $machine = $env:PROCESSOR_ARCHITECTURE
    if ($env:PROCESSOR_ARCHITEW6432) { $machine = $env:PROCESSOR_ARCHITEW6432 }
    if ($machine -eq 'AMD64') { $machine = 'x86_64' }
    if ($machine -eq 'ARM64') { $machine = 'aarch64' }
    $isSystem = $System -eq '' -or $caption -match ([regex]::Escape($System) + '(\D|$)')
    if ($isSystem -and ($Architecture -eq '' -or $machine -eq $Architecture)) { return }
    Write-Host ('error: this plan is for ' + $Name + '; this is ' + $caption + ' on ' + $machine + ': nothing was changed')
    exit 4
}
